/* build.c - from a path to the provider that can run it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is loaded here: a symbol's name is looked for among the file's bytes. Whether the library really exports it, the child
 * that opens it says. */
#include "replayer/build.h"

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

static bool map_file(const char *path, struct bytes *b)
{
    if (td_fs_map(path, &b->data, &b->n, NULL))
        return false;
    if (b->n && b->n <= MAX_BUILD_BYTES)
        return true;
    if (b->n)
        munmap((void *)b->data, b->n);
    return false;
}

/* Code for one machine (its ELF number), or a library that has such in a section. */
static bool is_gpu_elf(const struct bytes *b, uint8_t machine, const char *section, size_t n)
{
    const uint8_t *d = b->data;

    return !memcmp(d, "\177ELF", 4) && ((d[18] == machine && !d[19]) || memmem(d, b->n, section, n));
}

/* GPU code: a fat binary, a cubin; AMD's bundle, a code object; a library with such. NULL: none. */
static const char *gpu_provider_of(const struct bytes *b)
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

/* The provider of a library by the names in it; NULL: it has none of them. gpu: GPU code counts too. */
static const char *provider_of(const char *path, bool gpu)
{
    static const struct { const char *provider, *symbol; size_t n; } marks[] = {
        {"lib", "\0td_gptq_gemm", sizeof "\0td_gptq_gemm"}, {"ggml", "\0ggml_mul_mat", sizeof "\0ggml_mul_mat"},
        {"simt", "\0td_simt_launch", sizeof "\0td_simt_launch"}};
    const char *found = NULL;
    struct bytes b;

    if (!map_file(path, &b))
        return NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !found; i++)
        if (memmem(b.data, b.n, marks[i].symbol, marks[i].n))
            found = marks[i].provider;
    if (!found && gpu)
        found = gpu_provider_of(&b);
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

/* A folder's first library that holds a kernel we know; ggml in several libraries is opened by its folder. */
static int find_in_folder(const char *dir, struct td_build *out, struct td_error *err)
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
            out->provider = provider_of(out->arg, false);
        free(names[i]);
    }
    free(names);
    if (out->provider)
        return TD_OK;
    return td_fail(err, TD_ENOTFOUND, "%s: no build in this folder: no library that exports td_gptq_gemm or holds ggml, no bin/python (a library with GPU code is named itself, not its folder); "
                   "--provider NAME says what it is", dir);
}

static void find_file(const char *path, struct td_build *out)
{
    const char *slash = strrchr(path, '/'), *found = provider_of(path, true);
    bool for_gpu = found && (!strcmp(found, "cuda") || !strcmp(found, "hip"));

    if (!strstr(slash ? slash : path, ".so") && access(path, X_OK) == 0 && !for_gpu)
        out->provider = "vllm";
    else
        out->provider = found;
    if (!out->provider)
        out->provider = "lib";
}

/* The nearest kernels/ above the programs: of an installation and of the tree it is next to bin/, other builds of the tree lie deeper. */
static int find_script(struct td_build *b, struct td_error *err)
{
    char at[TD_PATH_MAX], up[TD_PATH_MAX];
    int rc = td_fs_self_dir(at, sizeof at, err);

    for (int i = 0; !rc && i < SCRIPT_LEVELS; i++) {
        rc = td_fs_join(up, sizeof up, at, "..", err);
        memcpy(at, up, sizeof at);
        if (!rc && !td_fs_join(b->script, sizeof b->script, at, "kernels/providers/vllm_child.py", NULL) && td_fs_exists(b->script))
            return TD_OK;
    }
    return rc ? rc : td_fail(err, TD_ENOTFOUND, "kernels/providers/vllm_child.py is not there beside the programs; provider vllm needs it (make install)");
}

const char *td_build_own_provider(const char *provider)
{
    return td_provider_name_find(provider, strcspn(provider, ":"), TD_PROVIDER_OURS);
}

/* "simt:seed=3" without a path. */
static int take_own(const char *provider, struct td_build *out, struct td_error *err)
{
    const char *argument = strchr(provider, ':');

    out->provider = td_build_own_provider(provider);
    if (!out->provider)
        out->provider = provider;
    else if (argument && snprintf(out->arg, sizeof out->arg, "%s", argument + 1) >= (int)sizeof out->arg)
        return td_fail(err, TD_ELIMIT, "--provider %.100s...: too long", provider);
    return TD_OK;
}

/* To open a FIFO is to wait for its writer; nothing but a file or a folder is a build. */
static bool is_special(const char *path)
{
    struct stat st;

    return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

int td_build_find(const char *path, const char *provider, struct td_build *out, struct td_error *err)
{
    int rc = TD_OK;

    memset(out, 0, sizeof *out);
    if (path && snprintf(out->arg, sizeof out->arg, "%s", path) >= (int)sizeof out->arg)
        return td_fail(err, TD_ELIMIT, "%.100s...: the path is too long", path);
    if (path && is_special(path))
        return td_fail(err, TD_EINVAL, "%s: neither a regular file nor a folder", path);
    if (path && td_fs_is_dir(path) && !(provider && strcmp(provider, "vllm")))
        rc = find_in_folder(path, out, err);
    else if (path && !provider)
        find_file(path, out);
    if (rc)
        return rc;
    if (provider && !path)
        return take_own(provider, out, err);
    if (provider)
        out->provider = provider;
    else if (!out->provider)
        out->provider = "cpu";
    return strcmp(out->provider, "vllm") ? TD_OK : find_script(out, err);
}

/* ---- what was run, as one number ------------------------------------------------------------------------------------ */

static bool hash_file(const char *path, struct td_hash *h)
{
    struct bytes b;

    if (!map_file(path, &b))
        return false;
    *h = td_hash_bytes(b.data, b.n);
    munmap((void *)b.data, b.n);
    return true;
}

static bool hash_folder(const char *dir, struct td_hash *h)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_library, alphasort), i, used = 0;
    struct td_hash *each = calloc(n > 0 ? (size_t)n : 1, sizeof *each);
    char path[TD_PATH_MAX];

    for (i = 0; i < n; i++) {
        if (each && !td_fs_join(path, sizeof path, dir, names[i]->d_name, NULL))
            used += hash_file(path, &each[used]);
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

    if (td_fs_is_dir(path) ? !hash_folder(path, &h) : !hash_file(path, &h))
        return false;
    td_hash_hex(h, hex);
    return true;
}
