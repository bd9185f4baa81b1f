/* lib_fake_simt.c - plugin of the fake CUDA driver: runs our own GPU kernels in the emulator
 * (kernels/simt).
 * SPDX-License-Identifier: Apache-2.0
 *
 *   TD_FAKE_SIMT_WRONG  N: sums of references are wrong from the N-th launch on (1: from the first)
 *   TD_FAKE_SIMT        64: wavefronts of 64 threads, as on AMD's gfx9; else warps of 32
 *   TD_FAKE_SIMT_CALLS  a folder: each process that launched a kernel leaves a file there of how often it called the driver
 *   TD_FAKE_SIMT_BUILD  a .simt.so whose kernels replace ours, with a planted bug for example */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/simt/simt_launch.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

static int (*launch)(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block, size_t shared_bytes, void *const *params, uint64_t seed, int warp,
                     struct td_error *err) = td_simt_launch;
static int warp = 32, wrong_from, references;

void fake_cuda_plugin(const struct fake_cuda_api *api);

/* One sum in each column is a little too large: rows, columns, and the sums are parameters 9, 10 and 6. */
static void spoil(const struct fake_cuda_launch *l)
{
    const int32_t m = *(const int32_t *)l->params[9], n = *(const int32_t *)l->params[10];
    double *r0 = (double *)(uintptr_t)*(const uint64_t *)l->params[6];

    for (int64_t j = 0; j < n; j++)
        r0[(m - 1) * (int64_t)n + j] += 1e-3;
}

static void run(const struct fake_cuda_launch *l, void *symbol)
{
    static uint64_t seed;
    struct td_error err = {0};

    if (launch(symbol, (struct td_simt_dim){l->grid[0], l->grid[1], l->grid[2]}, (struct td_simt_dim){l->block[0], l->block[1], l->block[2]}, l->shared_bytes,
               l->params, seed++, warp, &err)) {
        fprintf(stderr, "fake driver: %s\n", err.msg);
        abort();
    }
    if (wrong_from && !strncmp(symbol, "td_reference_", 13) && ++references >= wrong_from)
        spoil(l);
}

static const struct fake_cuda_api *driver;

/* The driver's calls that wait, and those that launch. */
__attribute__((destructor)) static void count_calls(void)
{
    static const char *const names[] = {"cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"};
    const char *folder = getenv("TD_FAKE_SIMT_CALLS");
    char path[4096];
    FILE *f;

    if (!folder || !driver || !driver->calls("cuLaunchKernel"))
        return;
    snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
    if (!(f = fopen(path, "w")))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fprintf(f, "%s %llu\n", names[i], (unsigned long long)driver->calls(names[i]));
    fclose(f);
}

static void read_environment(void)
{
    const char *width = getenv("TD_FAKE_SIMT"), *build = getenv("TD_FAKE_SIMT_BUILD");
    void *h = build && *build ? dlopen(build, RTLD_NOW | RTLD_LOCAL) : NULL, *symbol = h ? dlsym(h, "td_simt_launch") : NULL;

    wrong_from = getenv("TD_FAKE_SIMT_WRONG") ? atoi(getenv("TD_FAKE_SIMT_WRONG")) : 0;
    warp = width && !strcmp(width, "64") ? 64 : 32;
    if (build && *build && !symbol) {
        fprintf(stderr, "fake driver: %s is no build for the emulator: %s\n", build, dlerror());
        abort();
    }
    if (symbol)
        memcpy(&launch, &symbol, sizeof launch);
}

void fake_cuda_plugin(const struct fake_cuda_api *api)
{
    const struct td_simt_kernel *s;

    read_environment();
    driver = api;
    for (int i = 0; (s = td_simt_kernel_at(i)); i++) {
        struct fake_cuda_kernel k = {.symbol = s->symbol, .n_params = s->n_params, .run = run, .user = (void *)(uintptr_t)s->symbol};

        for (int p = 0; p < s->n_params && p < FAKE_CUDA_PARAMS; p++) {
            k.param[p].offset = s->params[p].offset;
            k.param[p].size = s->params[p].size;
        }
        api->add_kernel(&k);
    }
}
