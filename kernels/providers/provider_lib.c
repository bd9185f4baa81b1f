/* provider_lib.c - runs an op in a build: a library that exports td_gptq_gemm (td_gptq.h), loaded by path.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/gptq_gemm_op.h"
#include "kernels/ops/half_sums.h"
#include "kernels/providers/provider_common.h"

typedef int gptq_gemm_fn(const struct td_gptq_gemm_args *args);

struct lib_state {
    void *handle;
    gptq_gemm_fn *gptq_gemm;
    char path[4096];
    char why[480];
};

static int lib_open(const char *arg, void **state, struct td_error *err)
{
    struct lib_state *s;
    void *symbol;

    *state = NULL;
    if (!arg || !*arg)
        return td_fail(err, TD_EINVAL, "provider lib needs the path of a library, such as lib/libtdkernels.so");
    if (!(s = calloc(1, sizeof *s)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    /* a name without a slash would be searched for in the system's folders */
    if (snprintf(s->path, sizeof s->path, "%s%s", strchr(arg, '/') ? "" : "./", arg) >= (int)sizeof s->path) {
        td_fail(err, TD_EINVAL, "%.100s...: the path is too long", arg);
        goto fail;
    }
    if (!(s->handle = dlopen(s->path, RTLD_NOW | RTLD_LOCAL))) {
        td_fail(err, TD_EIO, "cannot load the build: %s; give the path of its libtdkernels.so", dlerror());
        goto fail;
    }
    if (!(symbol = dlsym(s->handle, "td_gptq_gemm"))) {
        td_fail(err, TD_EINVAL,
                "%s: no symbol td_gptq_gemm; is this a build of the kernels? It must export what "
                "kernels/abi/td_gptq.h declares",
                arg);
        goto fail;
    }
    memcpy(&s->gptq_gemm, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
    *state = s;
    return 0;
fail:
    if (s->handle)
        dlclose(s->handle);
    free(s);
    return err ? err->code : TD_EINVAL;
}

static const char *lib_supports(void *state, const struct td_op_call *op)
{
    struct lib_state *s = state;

    return td_provider_supports_gptq_gemm(op, s->why, sizeof s->why);
}

static int lib_run(void *state, void *prepared, struct td_error *err)
{
    const struct lib_state *s = state;
    const int rc = s->gptq_gemm(prepared);

    if (!rc)
        return 0;
    return td_fail(err, rc == TD_KERNEL_ENOMEM ? TD_ENOMEM : rc == TD_KERNEL_EUNSUPPORTED ? TD_EUNSUPPORTED : TD_EINVAL,
                   "%s: td_gptq_gemm failed: %s (status %d)", s->path, td_kernel_status_text(rc), rc);
}

static const char *lib_words(void *state)
{
    const struct lib_state *s = state;
    void *symbol = dlsym(s->handle, "td_kernels_build");
    const char *(*words)(void);

    if (!symbol)
        return "";
    memcpy(&words, &symbol, sizeof words);
    return words();
}

static int lib_half_sums(const void *state, const void *prepared)
{
    const struct lib_state *s = state;
    void *symbol = dlsym(s->handle, "td_kernels_half_sums");
    int (*half_sums)(void), products;

    (void)prepared;
    if (!symbol)
        return 0;
    memcpy(&half_sums, &symbol, sizeof half_sums);
    products = half_sums();
    return products < TD_HALF_SUMS_ALL ? products : TD_HALF_SUMS_ALL;
}

static void lib_close(void *state)
{
    struct lib_state *s = state;

    if (s)
        dlclose(s->handle);
    free(s);
}

const struct td_provider td_provider_lib = {.name = "lib",
                                            .open = lib_open,
                                            .supports = lib_supports,
                                            .prepare = td_provider_prepare_gptq_gemm,
                                            .run = lib_run,
                                            .fetch = td_provider_fetch_nothing,
                                            .release = td_provider_free_prepared,
                                            .close = lib_close,
                                            .words = lib_words,
                                            .half_sums = lib_half_sums,
                                            .rounding = td_provider_rounding_none};
