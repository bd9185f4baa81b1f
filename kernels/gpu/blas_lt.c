/* blas_lt.c - a product with a bias by cublasLt: descriptors, the library's choice, the call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/blas_lt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/cublaslt_abi.h"

#define NOT_SUPPORTED 15               /* CUBLAS_STATUS_NOT_SUPPORTED */
#define MOST_ALIGNED 256               /* bytes; torch looks no further */

struct td_gpu_blas_lt {
    bool planned;
    struct td_gpu_linear x;            /* for which the rest stands */
    void *desc, *w, *a, *c;
    struct td_cublaslt_choice choice;
    int (*matmul) TD_CUBLASLT_MATMUL_ARGS;
#define MEMBER(name, member, args) int (*member) args;
    TD_CUBLASLT_PLAN_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* ---- open and close -------------------------------------------------------------------------- */

static void find_function(void *library, const char *name, void *fn, const char **missing)
{
    void *symbol = dlsym(library, name);

    if (!symbol)
        *missing = name;
    memcpy(fn, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
}

int td_gpu_blas_lt_open(void *library, struct td_gpu_blas_lt **out, struct td_error *err)
{
    struct td_gpu_blas_lt *l = calloc(1, sizeof *l);
    const char *missing = NULL;

    *out = NULL;
    if (!l)
        return td_fail(err, TD_ENOMEM, "out of memory");
    find_function(library, "cublasLtMatmul", &l->matmul, &missing);
#define FIND(name, member, args) find_function(library, #name, &l->member, &missing);
    TD_CUBLASLT_PLAN_FUNCTIONS(FIND)
#undef FIND
    if (missing) {
        free(l);
        return td_fail(err, TD_ENOTFOUND, "neither it nor a library that it was linked with has %s", missing);
    }
    *out = l;
    return TD_OK;
}

static void forget_plan(struct td_gpu_blas_lt *l)
{
    if (l->desc)
        l->end_desc(l->desc);
    if (l->w)
        l->end_layout(l->w);
    if (l->a)
        l->end_layout(l->a);
    if (l->c)
        l->end_layout(l->c);
    l->desc = l->w = l->a = l->c = NULL;
    l->planned = false;
}

void td_gpu_blas_lt_close(struct td_gpu_blas_lt *l)
{
    if (l)
        forget_plan(l);
    free(l);
}

/* ---- a plan ---------------------------------------------------------------------------------- */

static bool is_same_layer(const struct td_gpu_linear *x, const struct td_gpu_linear *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldc == y->ldc &&
           x->bf16 == y->bf16 && x->a == y->a && x->w == y->w && x->c == y->c && x->bias == y->bias;
}

static uint32_t alignment(uint64_t address)
{
    uint32_t bytes = MOST_ALIGNED;

    while (address % bytes)
        bytes /= 2;
    return bytes;
}

static int describe_layer(struct td_gpu_blas_lt *l, const struct td_gpu_linear *x, const char **who)
{
    const int type = x->bf16 ? TD_CUBLASLT_BF16 : TD_CUBLASLT_F16, transpose = TD_CUBLASLT_OP_T,
              keep = TD_CUBLASLT_OP_N, epilogue = TD_CUBLASLT_BIAS;
    const uint64_t n = (uint64_t)x->n, k = (uint64_t)x->k, m = (uint64_t)x->m;
    int rc;

    *who = "cublasLtMatmulDescCreate";
    if ((rc = l->make_desc(&l->desc, TD_CUBLASLT_COMPUTE_32F, TD_CUBLASLT_F32)))
        return rc;
    *who = "cublasLtMatmulDescSetAttribute";
    if ((rc = l->set_desc(l->desc, TD_CUBLASLT_DESC_TRANSA, &transpose, sizeof transpose)) ||
        (rc = l->set_desc(l->desc, TD_CUBLASLT_DESC_TRANSB, &keep, sizeof keep)) ||
        (rc = l->set_desc(l->desc, TD_CUBLASLT_DESC_EPILOGUE, &epilogue, sizeof epilogue)) ||
        (rc = l->set_desc(l->desc, TD_CUBLASLT_DESC_BIAS_POINTER, &x->bias, sizeof x->bias)))
        return rc;
    *who = "cublasLtMatrixLayoutCreate";
    if ((rc = l->make_layout(&l->w, type, k, n, x->k)) || (rc = l->make_layout(&l->a, type, k, m, x->lda)))
        return rc;
    return l->make_layout(&l->c, type, n, m, x->ldc);
}

/* torch gives the bias's alignment as D's. */
static int set_preference(struct td_gpu_blas_lt *l, void *preference, const struct td_gpu_linear *x, uint64_t workspace_bytes)
{
    const struct { int attribute; uint64_t address;
    } operands[] = {{TD_CUBLASLT_PREF_ALIGN_A, x->w},
                    {TD_CUBLASLT_PREF_ALIGN_B, x->a},
                    {TD_CUBLASLT_PREF_ALIGN_C, x->c},
                    {TD_CUBLASLT_PREF_ALIGN_D, x->bias}};
    int rc = l->set_preference(preference, TD_CUBLASLT_PREF_WORKSPACE, &workspace_bytes, sizeof workspace_bytes);

    for (size_t i = 0; i < sizeof operands / sizeof *operands && !rc; i++) {
        const uint32_t bytes = alignment(operands[i].address);

        rc = l->set_preference(preference, operands[i].attribute, &bytes, sizeof bytes);
    }
    return rc;
}

static int choose_algorithm(struct td_gpu_blas_lt *l, const struct td_gpu_blas_lt_place *at,
                            const struct td_gpu_linear *x, const char **who)
{
    void *preference = NULL;
    int rc, found = 0;

    *who = "cublasLtMatmulPreferenceCreate";
    if ((rc = l->make_preference(&preference)))
        return rc;
    *who = "cublasLtMatmulPreferenceSetAttribute";
    if (!(rc = set_preference(l, preference, x, at->workspace_bytes))) {
        *who = "cublasLtMatmulAlgoGetHeuristic";
        rc = l->choose(at->handle, l->desc, l->w, l->a, l->c, l->c, preference, 1, &l->choice, &found);
    }
    l->end_preference(preference);
    return rc ? rc : found < 1 ? NOT_SUPPORTED : l->choice.status;
}

static int plan_layer(struct td_gpu_blas_lt *l, const struct td_gpu_blas_lt_place *at,
                      const struct td_gpu_linear *x, const char **who)
{
    int rc;

    forget_plan(l);
    if ((rc = describe_layer(l, x, who)) || (rc = choose_algorithm(l, at, x, who)))
        return rc;
    l->x = *x;
    l->planned = true;
    return 0;
}

/* ---- the call -------------------------------------------------------------------------------- */

int td_gpu_blas_lt_linear(struct td_gpu_blas_lt *l, const struct td_gpu_blas_lt_place *at,
                          const struct td_gpu_linear *x, const char **who)
{
    static const float one = 1, zero = 0;
    void *const c = (void *)(uintptr_t)x->c;
    int rc = l->planned && is_same_layer(&l->x, x) ? 0 : plan_layer(l, at, x, who);

    if (rc)
        return rc;
    *who = "cublasLtMatmul";
    return l->matmul(at->handle, l->desc, &one, (const void *)(uintptr_t)x->w, l->w,
                     (const void *)(uintptr_t)x->a, l->a, &zero, c, l->c, c, l->c,
                     l->choice.algorithm, at->workspace, at->workspace_bytes, at->stream);
}
