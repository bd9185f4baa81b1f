/* build_detect.c - find out which provider can run the build at a path.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No library is loaded here: detection searches the file's bytes for the names of symbols. Whether the
 * library really exports such a symbol shows when the child opens it. */
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

/* The provider of a library, by the names of symbols in it. gpu: a library with GPU code counts too.
 * NULL: nothing that a provider can run. */
static const char *library_provider(const char *path, bool gpu)
{
    static const struct { const char *provider, *symbol; size_t n; } marks[] = {
        {"lib", "\0td_gptq_gemm", sizeof "\0td_gptq_gemm"}, {"ggml", "\0ggml_mul_mat", sizeof "\0ggml_mul_mat"},
        {"simt", "\0td_simt_launch", sizeof "\0td_simt_launch"}};
    const char *found = NULL;
    struct bytes b;

    if (!map_build_file(path, &b))
        return NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !found; i++)
        if (memmem(b.data, b.n, marks[i].symbol, marks[i].n))
            found = marks[i].provider;
    if (!found && gpu)
        found = gpu_code_provider(&b);
    munmap((void *)b.data, b.n);
    return found;
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

/* Fill *out with the folder's first library that holds a known kernel. ggml consists of several
 * libraries, so its provider opens the folder itself. */
static int detect_folder(const char *dir, struct td_build *out, struct td_error *err)
{
    struct dirent **names = NULL;
    int n = 0, i;

    if (exists_in(dir, "libggml-base.so") || exists_in(dir, "libggml-base.so.0"))
        out->provider = "ggml";
    else if (exists_in(dir, "bin/python")) {
        out->provider = "vllm";
        return td_fs_join(out->arg, sizeof out->arg, dir, "bin/python", err);
    } else {
        n = scandir(dir, &names, is_library, alphasort);
    }
    for (i = 0; i < n; i++) {
        if (!out->provider && !td_fs_join(out->arg, sizeof out->arg, dir, names[i]->d_name, NULL))
            out->provider = library_provider(out->arg, false);
        free(names[i]);
    }
    free(names);
    if (out->provider)
        return TD_OK;
    return td_fail(err, TD_ENOTFOUND, "%s: no build in this folder: no library that exports td_gptq_gemm or holds ggml, "
                   "no bin/python (of a library with GPU code give the file, not its folder); "
                   "--provider NAME says what it is",
                   dir);
}

static void detect_file(const char *path, struct td_build *out)
{
    const char *slash = strrchr(path, '/'), *found = library_provider(path, true);
    bool for_gpu = found && (!strcmp(found, "cuda") || !strcmp(found, "hip"));

    if (!strstr(slash ? slash : path, ".so") && access(path, X_OK) == 0 && !for_gpu)
        out->provider = "vllm";
    else
        out->provider = found;
    if (!out->provider)
        out->provider = "lib";
}

/* Find vllm_child.py in the nearest kernels/ above this program. In an installation and in the source
 * tree kernels/ lies next to bin/; other build folders of the tree lie deeper. */
static int find_vllm_script(struct td_build *b, struct td_error *err)
{
    char at[TD_PATH_MAX], up[TD_PATH_MAX];
    int rc = td_fs_self_dir(at, sizeof at, err);

    for (int i = 0; !rc && i < SCRIPT_LEVELS; i++) {
        rc = td_fs_join(up, sizeof up, at, "..", err);
        memcpy(at, up, sizeof at);
        if (!rc &&
            !td_fs_join(b->script, sizeof b->script, at, "kernels/providers/vllm_child.py", NULL) &&
            td_fs_exists(b->script))
            return TD_OK;
    }
    return rc ? rc
              : td_fail(err, TD_ENOTFOUND,
                        "kernels/providers/vllm_child.py is not there beside the programs; "
                        "provider vllm needs it (make install)");
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
    if (path && td_fs_is_dir(path) && !(provider && strcmp(provider, "vllm")))
        rc = detect_folder(path, out, err);
    else if (path && !provider)
        detect_file(path, out);
    if (rc)
        return rc;
    if (provider && !path)
        return detect_own_kernels(provider, out, err);
    if (provider)
        out->provider = provider;
    else if (!out->provider)
        out->provider = "cpu";
    return strcmp(out->provider, "vllm") ? TD_OK : find_vllm_script(out, err);
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
