/* gpu_provider_rig.h - what the tests of providers cuda and hip stand on: the fake driver with kernels plugged in, ops, and a comparison.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_PROVIDERS_GPU_PROVIDER_RIG_H
#define TD_TESTS_UNIT_KERNELS_PROVIDERS_GPU_PROVIDER_RIG_H

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/providers/providers.h"
#include "common/f16.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"
#include "tests/unit/random_gptq.h"

static const struct td_provider *gpu;  /* the one that is tested */
static const struct fake_cuda_api *fake;

/* A file of the tests: of the tree (tests/unit/…) or of the build. out : [4096] */
static inline const char *beside(const char *file, char *out)
{
    const char *o = getenv("O"), *root = getenv("ROOT");

    snprintf(out, 4096, "%s/%s", strncmp(file, "tests/unit", 10) ? o ? o : "build" : root ? root : ".", file);
    return out;
}

/* Provider `name` on the library of the build that `variable` is set to; kernels come from one or two plugins (second NULL). 0, or -1. */
static inline int rig_open(const char *name, const char *variable, const char *library, const char *first, const char *second)
{
    const struct fake_cuda_api *(*api)(void);
    char driver[4096], plugins[8200], a[4096], b[4096];
    void *lib, *symbol;

    gpu = td_provider_find(name);
    snprintf(plugins, sizeof plugins, "%s%s%s", beside(first, a), second ? ":" : "", second ? beside(second, b) : "");
    setenv("TD_FAKE_CUDA_PLUGIN", plugins, 1);
    setenv(variable, beside(library, driver), 1);
    lib = dlopen(driver, RTLD_NOW);
    symbol = lib ? dlsym(lib, "fake_cuda_api") : NULL;
    if (!symbol)
        return -1;
    memcpy(&api, &symbol, sizeof api);
    fake = api();
    fake->calls("x");
    return 0;
}

static inline void *open_build(const char *build)
{
    struct td_error err = {0};
    void *s = NULL;

    if (gpu->open(build, &s, &err))
        fail_msg("%s", err.msg);
    return s;
}

/* An op of gptq_gemm, N 256 and K 640, with what the cpu provider makes of it in C. */
static inline void make_gptq(struct td_op_call *op, int m, int bits, bool act, int seed)
{
    const struct random_gptq d = {m, 256, 640, bits, 128, act};

    random_gptq_make(op, &d, (uint64_t)seed, (uint64_t)seed + 1);
    assert_int_equal(random_gptq_run(op, "cpu"), 0); /* gives it room for C as well */
}

/* Largest relative difference from what stood in C, which is poisoned before; INFINITY: it did not run, or left NaN. */
static inline double run_and_compare(void *s, struct td_op_call *op, struct td_error *err)
{
    const size_t n = op->out.size_bytes / 2;
    uint16_t *want = malloc(op->out.size_bytes), *got = op->out.data;
    double worst = 0;
    void *p = NULL;
    int rc;

    memcpy(want, got, op->out.size_bytes);
    memset(got, 0x7e, op->out.size_bytes);
    rc = gpu->prepare(s, op, &p, err);
    rc = rc ? rc : gpu->refill(s, p, err);
    rc = rc ? rc : gpu->run(s, p, err);
    rc = rc ? rc : gpu->fetch(s, p, err);
    for (size_t i = 0; i < n && !rc; i++)
        if (isnan(td_f16_load(got[i])))
            rc = td_fail(err, TD_ECORRUPT, "element %zu is NaN", i);
    for (size_t i = 0; i < n && !rc; i++)
        worst = fmax(worst, fabs(td_f16_load(got[i]) - td_f16_load(want[i])) / (fabs(td_f16_load(want[i])) + 1e-2));
    if (p)
        gpu->release(s, p);
    free(want);
    return rc ? INFINITY : worst;
}

#endif
