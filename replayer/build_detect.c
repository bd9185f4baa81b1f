/* build_detect.c - find out which provider can run the build at a path.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is loaded or executed here: detection looks at what kind of file it is and searches its bytes
 * for the names of symbols. Whether a library really exports such a symbol shows when the child opens it. */
#include "replayer/build_detect.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "kernels/providers/providers.h"
#include "replayer/build_file.h"

#define MAX_BUILD_BYTES ((size_t)8 << 30)
#define SCRIPT_LEVELS 6

struct bytes { const void *data; size_t n; };

static bool map_build_file(const char *path, struct bytes *b)
{
    if (td_fs_map(path, &b->data, &b->n, NULL))
        return false;
    if (b->n && b->n <= MAX_BUILD_BYTES)
        return true;
    if (b->n)
        munmap((void *)b->data, b->n);
    return false;
}

/* Is this an ELF file for one kind of GPU (its ELF machine number), or a library with a section of
 * that GPU's code? */
static bool is_gpu_elf(const struct bytes *b, uint8_t machine, const char *section, size_t n)
{
    const uint8_t *d = b->data;

    return !memcmp(d, "\177ELF", 4) && ((d[18] == machine && !d[19]) || memmem(d, b->n, section, n));
}

/* The provider of a file with GPU code: a fat binary, a cubin, AMD's bundle, a code object, or a
 * library that holds one of these. NULL: no GPU code. */
static const char *gpu_code_provider(const struct bytes *b)
{
    static const uint8_t fatbin[] = {0x50, 0xed, 0x55, 0xba};
    static const char bundle[24] = "__CLANG_OFFLOAD_BUNDLE__";

    if (b->n < 64)
        return NULL;
    if (!memcmp(b->data, fatbin, sizeof fatbin) || is_gpu_elf(b, 190, "\0.nv_fatbin", sizeof "\0.nv_fatbin"))
        return "cuda";
    if (!memcmp(b->data, bundle, sizeof bundle) || is_gpu_elf(b, 224, "\0.hip_fatbin", sizeof "\0.hip_fatbin"))
        return "hip";
    return NULL;
}

/* Is it our own tap? It exports the names that it stands before, and holds none of the kernels. */
static bool is_tap(const struct bytes *b)
{
    return memmem(b->data, b->n, "\0__start_tap_fronts", sizeof "\0__start_tap_fronts") != NULL;
}

/* The provider of a library, by the names of symbols in it. NULL: nothing that a provider can run. */
static const char *library_provider(const struct bytes *b)
{
    static const struct { const char *provider, *symbol; size_t n; } marks[] = {
        {"lib", "\0td_gptq_gemm", sizeof "\0td_gptq_gemm"}, {"ggml", "\0ggml_mul_mat", sizeof "\0ggml_mul_mat"},
        {"simt", "\0td_simt_launch", sizeof "\0td_simt_launch"}};

    if (is_tap(b))
        return NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (memmem(b->data, b->n, marks[i].symbol, marks[i].n))
            return marks[i].provider;
    return NULL;
}

static int is_library(const struct dirent *e)
{
    return strstr(e->d_name, ".so") != NULL;
}

static bool exists_in(const char *dir, const char *name)
{
    char path[TD_PATH_MAX];

    return !td_fs_join(path, sizeof path, dir, name, NULL) && td_fs_exists(path);
}

/* The provider of a library for this machine in a folder; NULL: it is none, or holds no known kernel. */
static const char *provider_of_library(const char *path)
{
    const char *found = NULL;
    struct bytes b;

    if (!map_build_file(path, &b))
        return NULL;
    if (td_build_file_kind(b.data, b.n) == TD_FILE_LIBRARY)
        found = library_provider(&b);
    munmap((void *)b.data, b.n);
    return found;
}

/* Fill *out with the folder's first library that holds a known kernel. ggml consists of several
 * libraries, so its provider opens the folder itself. False: no build lies in this folder. */
static bool find_in_folder(const char *dir, struct td_build *out)
{
    struct dirent **names = NULL;
    int n, i;

    if (exists_in(dir, "libggml-base.so") || exists_in(dir, "libggml-base.so.0")) {
        out->provider = "ggml";
        return snprintf(out->arg, sizeof out->arg, "%s", dir) < (int)sizeof out->arg;
    }
    if (exists_in(dir, "bin/python")) {
        out->provider = "torch";
        return !td_fs_join(out->arg, sizeof out->arg, dir, "bin/python", NULL);
    }
    n = scandir(dir, &names, is_library, alphasort);
    for (i = 0; i < n; i++) {
        if (!out->provider && !td_fs_join(out->arg, sizeof out->arg, dir, names[i]->d_name, NULL))
            out->provider = provider_of_library(out->arg);
        free(names[i]);
    }
    free(names);
    return out->provider != NULL;
}

/* The folder below dir, or the file in it, that holds a build: people name the folder in which they
 * built. "": none was found. */
static const char *find_nearby(const char *dir, char *out, size_t n)
{
    static const char *const places[] = {"bin", "lib", "lib64", "build/bin", "build/lib", "build"};
    struct td_build found;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memset(&found, 0, sizeof found);
        if (!td_fs_join(out, n, dir, places[i], NULL) && td_fs_is_dir(out) && find_in_folder(out, &found))
            return out;
    }
    if (exists_in(dir, "python") && exists_in(dir, "activate") && !td_fs_join(out, n, dir, "python", NULL))
        return out; /* the bin/ of a venv */
    *out = '\0';
    return out;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int refuse(const char *path, const char *what, struct td_error *err)
{
    return td_fail(err, TD_EUNSUPPORTED, "%.300s: %s; " TD_BUILD_WANTED, path, what);
}

/* Find the provider of a file, or refuse it. `provider`: the user's choice, or NULL. */
static int detect_bytes(const char *path, const struct bytes *b, const char *provider, struct td_build *out,
                        struct td_error *err)
{
    const enum td_build_file kind = td_build_file_kind(b->data, b->n);
    const char *gpu = gpu_code_provider(b);

    if (provider && (!strcmp(provider, "cuda") || !strcmp(provider, "hip")))
        return TD_OK; /* their reader of GPU code says what it finds; nothing of the file runs on this machine */
    if (kind == TD_FILE_LIBRARY && is_tap(b))
        return td_fail(err, TD_EUNSUPPORTED,
                       "%.300s: this is the tap, which {record} loads into a server, and no build: a build "
                       "holds the kernels that are tested; " TD_BUILD_WANTED, path);
    if (kind == TD_FILE_LIBRARY)
        out->provider = provider ? provider : library_provider(b);
    if (!out->provider && !provider)
        out->provider = gpu;
    if (out->provider)
        return TD_OK;
    if (kind == TD_FILE_LIBRARY)
        return refuse(path, "a library that holds neither td_gptq_gemm nor ggml_mul_mat nor td_simt_launch, and no GPU code", err);
    return refuse(path, td_build_file_words(kind), err);
}

/* What a file is must be known before a byte of it is executed: loading a library runs its constructors,
 * and a Python is started with a script of ours. */
static int detect_file(const char *path, const char *provider, struct td_build *out, struct td_error *err)
{
    bool runs = access(path, X_OK) == 0, python = td_build_file_is_python(path);
    struct bytes b = {NULL, 0};
    int rc;

    if (provider ? !strcmp(provider, "torch") : python && runs) {
        if (!runs)
            return refuse(path, "cannot be executed, so it is no Python", err);
        out->provider = "torch";
        return TD_OK;
    }
    rc = td_fs_map(path, &b.data, &b.n, err);
    if (rc)
        return rc;
    if (b.n > MAX_BUILD_BYTES)
        rc = td_fail(err, TD_ELIMIT, "%s: more than %zu GiB, which no build has", path, MAX_BUILD_BYTES >> 30);
    else
        rc = detect_bytes(path, &b, provider, out, err);
    if (b.n)
        munmap((void *)b.data, b.n);
    return rc;
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Refuse a folder of ggml whose libraries this machine cannot load. */
static int check_ggml_base(const char *dir, struct td_error *err)
{
    char path[TD_PATH_MAX];
    enum td_build_file kind;
    struct bytes b = {NULL, 0};
    int rc = td_fs_join(path, sizeof path, dir, exists_in(dir, "libggml-base.so") ? "libggml-base.so" : "libggml-base.so.0", err);

    if (!rc)
        rc = td_fs_map(path, &b.data, &b.n, err);
    if (rc)
        return rc;
    kind = td_build_file_kind(b.data, b.n);
    if (b.n)
        munmap((void *)b.data, b.n);
    return kind == TD_FILE_LIBRARY ? TD_OK : refuse(path, td_build_file_words(kind), err);
}

static int detect_folder(const char *dir, struct td_build *out, struct td_error *err)
{
    char near[TD_PATH_MAX];

    if (find_in_folder(dir, out))
        return strcmp(out->provider, "ggml") || !td_fs_is_dir(out->arg) ? TD_OK : check_ggml_base(dir, err);
    find_nearby(dir, near, sizeof near);
    if (near[0])
        return td_fail(err, TD_ENOTFOUND, "%s: no build lies in this folder itself; there is one in %s: give that", dir, near);
    return td_fail(err, TD_ENOTFOUND, "%s: no build in this folder: no library that exports td_gptq_gemm or holds ggml, "
                   "no bin/python (of a library with GPU code give the file, not its folder); "
                   "--provider NAME says what it is",
                   dir);
}

/* Find torch_child.py in the nearest kernels/ above this program. In an installation and in the source
 * tree kernels/ lies next to bin/; other build folders of the tree lie deeper. */
static int find_torch_script(struct td_build *b, struct td_error *err)
{
    char at[TD_PATH_MAX], up[TD_PATH_MAX];
    int rc = td_fs_self_dir(at, sizeof at, err);

    for (int i = 0; !rc && i < SCRIPT_LEVELS; i++) {
        rc = td_fs_join(up, sizeof up, at, "..", err);
        memcpy(at, up, sizeof at);
        if (!rc &&
            !td_fs_join(b->script, sizeof b->script, at, "kernels/providers/torch_child.py", NULL) &&
            td_fs_exists(b->script))
            return TD_OK;
    }
    return rc ? rc
              : td_fail(err, TD_ENOTFOUND,
                        "kernels/providers/torch_child.py is not there beside the programs; "
                        "provider torch needs it (make install)");
}

const char *td_build_own_provider(const char *provider)
{
    return td_provider_name_find(provider, strcspn(provider, ":"), TD_PROVIDER_OURS);
}

/* A provider without a path: "cpu", or with an argument, "simt:seed=3". */
static int detect_own_kernels(const char *provider, struct td_build *out, struct td_error *err)
{
    const char *argument = strchr(provider, ':');

    out->provider = td_build_own_provider(provider);
    if (!out->provider)
        out->provider = provider;
    else if (argument && snprintf(out->arg, sizeof out->arg, "%s", argument + 1) >= (int)sizeof out->arg)
        return td_fail(err, TD_ELIMIT, "--provider %.100s...: too long", provider);
    return TD_OK;
}

/* Neither a regular file nor a folder. Opening a FIFO would wait for its writer. */
static bool is_special_file(const char *path)
{
    struct stat st;

    return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

int td_build_detect(const char *path, const char *provider, struct td_build *out,
                    struct td_error *err)
{
    int rc = TD_OK;

    memset(out, 0, sizeof *out);
    if (path && snprintf(out->arg, sizeof out->arg, "%s", path) >= (int)sizeof out->arg)
        return td_fail(err, TD_ELIMIT, "%.100s...: the path is too long", path);
    if (path && is_special_file(path))
        return td_fail(err, TD_EINVAL, "%s: neither a regular file nor a folder", path);
    if (path && td_fs_is_dir(path) && !(provider && strcmp(provider, "torch")))
        rc = detect_folder(path, out, err);
    else if (path && !td_fs_is_dir(path))
        rc = detect_file(path, provider, out, err);
    if (rc)
        return rc;
    if (provider && !path)
        return detect_own_kernels(provider, out, err);
    if (provider)
        out->provider = provider;
    else if (!out->provider)
        out->provider = "cpu";
    return strcmp(out->provider, "torch") ? TD_OK : find_torch_script(out, err);
}

/* ---- one hash of a build ------------------------------------------------------------------------------------------- */

static bool hash_build_file(const char *path, struct td_hash *h)
{
    struct bytes b;

    if (!map_build_file(path, &b))
        return false;
    *h = td_hash_bytes(b.data, b.n);
    munmap((void *)b.data, b.n);
    return true;
}

static bool hash_build_folder(const char *dir, struct td_hash *h)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_library, alphasort), i, used = 0;
    struct td_hash *each = calloc(n > 0 ? (size_t)n : 1, sizeof *each);
    char path[TD_PATH_MAX];

    for (i = 0; i < n; i++) {
        if (each && !td_fs_join(path, sizeof path, dir, names[i]->d_name, NULL))
            used += hash_build_file(path, &each[used]);
        free(names[i]);
    }
    free(names);
    if (used)
        *h = td_hash_bytes(each, (size_t)used * sizeof *each);
    free(each);
    return used > 0;
}

bool td_build_hash(const char *path, char *hex)
{
    struct td_hash h;

    if (td_fs_is_dir(path) ? !hash_build_folder(path, &h) : !hash_build_file(path, &h))
        return false;
    td_hash_hex(h, hex);
    return true;
}
