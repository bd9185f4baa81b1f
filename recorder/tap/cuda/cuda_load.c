/* cuda_load.c - find the driver's functions and CUPTI in a process that uses CUDA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver is mapped already: it loaded us. Of CUPTI a process may hold one copy only that is
 * asked, so the one that is mapped (torch brings its own) comes first, then the loader's search
 * path, then the places beside the libraries of CUDA that are mapped. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap/cuda/cuda_load.h"

#define PATH_BYTES 1024

struct tap_cuda_cupti tap_cupti;

static const char *const cupti_names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- libraries that are mapped --------------------------------------------------------------- */

struct look { const char *part; char path[PATH_BYTES]; };

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct look *l = arg;

    (void)size;
    return info->dlpi_name && strstr(info->dlpi_name, l->part) &&
           snprintf(l->path, sizeof l->path, "%s", info->dlpi_name) < (int)sizeof l->path;
}

/* Find a mapped library whose path contains `part`. */
static bool mapped(const char *part, char *path, size_t n)
{
    struct look l = {.part = part};

    return dl_iterate_phdr(look_at, &l) && snprintf(path, n, "%s", l.path) < (int)n;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static void *driver_handle(void)
{
    char path[PATH_BYTES];
    void *h = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);

    return h || !mapped("/libcuda.so", path, sizeof path) ? h
                                                          : dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
}

static const char *load_driver(void)
{
    static char why[96];
    void *h = driver_handle();

    if (!h)
        return "libcuda.so.1 is not mapped in this process";
#define FIND(name, member, args) *(void **)&tap_driver.member = dlsym(h, #name);
#define NEED(name, member, args) \
    if (!tap_driver.member) \
        return snprintf(why, sizeof why, "the CUDA driver has no %s: it is too old", #name), why;
    TD_CUDA_TAP_NEEDED(FIND)
    TD_CUDA_TAP_OPTIONAL(FIND)
    TD_CUDA_TAP_NEEDED(NEED)
    return tap_driver.kernel_param_info || tap_driver.func_get_param_info
               ? NULL
               : "the CUDA driver cannot describe the parameters of kernels (before CUDA 12.4)";
}

const char *tap_cuda_load_driver(void)
{
    static bool loaded;
    const char *why = loaded ? NULL : load_driver();

    loaded = !why;
    return why;
}

/* ---- CUPTI ----------------------------------------------------------------------------------- */

static void *by_name(const char *folder, int flags)
{
    char path[PATH_BYTES + 64];
    void *h = NULL;
    size_t i;

    for (i = 0; i < COUNT(cupti_names) && !h; i++)
        if (snprintf(path, sizeof path, "%s%s", folder, cupti_names[i]) < (int)sizeof path)
            h = dlopen(path, flags);
    return h;
}

/* libcudart lies in .../nvidia/cuda_runtime/lib or .../nvidia/cu13/lib of a Python environment, or
 * in a toolkit's lib64. */
static void *beside_runtime(void)
{
    static const char *const there[] = {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/"};
    char path[PATH_BYTES], folder[PATH_BYTES + 32], *slash;
    void *h = NULL;
    size_t i;

    if (!mapped("/libcudart.so", path, sizeof path) || !(slash = strrchr(path, '/')))
        return NULL;
    *slash = '\0';
    for (i = 0; i < COUNT(there) && !h; i++)
        if (snprintf(folder, sizeof folder, "%s%s", path, there[i]) < (int)sizeof folder)
            h = by_name(folder, RTLD_LAZY | RTLD_LOCAL);
    return h;
}

static const char *load_cupti(void)
{
    void *h = by_name("", RTLD_NOLOAD | RTLD_LAZY);

    if (!h)
        h = by_name("", RTLD_LAZY | RTLD_LOCAL);
    if (!h)
        h = beside_runtime();
    if (!h)
        return "there is no libcupti.so (package nvidia-cuda-cupti, or extras/CUPTI/lib64 of the "
               "toolkit in LD_LIBRARY_PATH)";
#define FIND_CUPTI(name, member, args) *(void **)&tap_cupti.member = dlsym(h, #name);
    TD_CUPTI_NEEDED(FIND_CUPTI)
    TD_CUPTI_OPTIONAL(FIND_CUPTI)
    TD_CUPTI_TIMES(FIND_CUPTI)
    return tap_cupti.subscribe && tap_cupti.enable && tap_cupti.unsubscribe
               ? NULL
               : "libcupti.so lacks its callback functions";
}

const char *tap_cuda_load(void)
{
    static bool loaded;
    const char *why;

    if (loaded)
        return NULL;
    why = tap_cuda_load_driver();
    if (!why)
        why = load_cupti();
    loaded = !why;
    return why;
}

void tap_cuda_library(char *library, size_t n)
{
    /* vLLM 0.26 has its GPTQ kernels in the first. */
    static const char *const parts[] = {"/vllm/_C_stable_libtorch", "/vllm/_C", "/libcuda.so"};
    size_t i;

    library[0] = '\0';
    for (i = 0; i < COUNT(parts); i++)
        if (mapped(parts[i], library, n))
            return;
}
