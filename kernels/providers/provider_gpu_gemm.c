/* provider_gpu_gemm.c - ops of kind gemm (layers that are not quantised), by the GPU's library of products.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library is asked as torch asks it, and no kernel of the build runs: without a bias cublasGemmEx,
 * with a bias cublasLtMatmul, whatever the op was recorded from. An op that was recorded from the same
 * call gives the recording's bits on the recording's library, GPU and settings. float32 is refused,
 * because torch asks otherwise for it. The library's own code stays where it is when a timed op starts
 * anew. */
#include <stdio.h>

#include "kernels/ops/gemm_op.h"
#include "kernels/providers/provider_gpu_blas.h"
#include "kernels/providers/provider_gpu_memory.h"

/* The distance of rows as torch gives it: of a single row, or none, its length. */
static int64_t stride_of(const struct td_gemm *x, int64_t ld, int64_t length)
{
    return x->m > 1 ? ld : length;
}

/* NULL: torch would ask cublasGemmEx or cublasLtMatmul for this. Else why not. */
static const char *check_form(struct td_gpu_state *s, const struct td_gemm *x)
{
    if ((x->a_dtype != TD_DT_F16 && x->a_dtype != TD_DT_BF16) || x->w_dtype != x->a_dtype || x->c_dtype != x->a_dtype) {
        snprintf(s->why, sizeof s->why,
                 "gemm: a is %s, w %s, c %s; cuBLAS is asked for F16 or BF16 throughout",
                 td_dtype_name(x->a_dtype), td_dtype_name(x->w_dtype), td_dtype_name(x->c_dtype));
        return s->why;
    }
    if (x->bias && x->bias->dtype != x->a_dtype) {
        snprintf(s->why, sizeof s->why,
                 "gemm: bias is %s, a %s; cublasLt is asked for one type throughout",
                 td_dtype_name(x->bias->dtype), td_dtype_name(x->a_dtype));
        return s->why;
    }
    if (x->ldw != x->k) {
        snprintf(s->why, sizeof s->why,
                 "gemm: rows of w lie %lld elements apart, not %lld: cuBLAS is asked for a dense "
                 "W, as it was when recorded",
                 (long long)x->ldw, (long long)x->k);
        return s->why;
    }
    return stride_of(x, x->lda, x->k) > INT32_MAX || stride_of(x, x->ldc, x->n) > INT32_MAX
               ? "gemm: rows lie further apart than cuBLAS can be told"
               : NULL;
}

static const char *choose_gemm(struct td_gpu_state *s, struct td_gpu_prepared *p)
{
    struct td_error err = {0};
    struct td_gemm x;
    const char *no;

    if (!s->facts.sm)
        return "gemm: provider hip does not ask hipBLAS for it yet (hipblasGemmEx); provider cuda "
               "asks cuBLAS, --provider cpu runs it";
    if (td_gemm_of(p->op, &x, &err)) {
        snprintf(s->why, sizeof s->why, "%.479s", err.msg);
        return s->why;
    }
    if ((no = check_form(s, &x)))
        return no;
    if (!td_gpu_find_blas(s)) {
        snprintf(s->why, sizeof s->why, "gemm: torch leaves the product to a library. %s", s->no_blas);
        return s->why;
    }
    if (x.bias && (no = td_gpu_blas_no_bias(s->blas))) {
        snprintf(s->why, sizeof s->why, "gemm: with a bias torch asks cublasLt. %s: %s", td_gpu_blas_words(s->blas), no);
        return s->why;
    }
    p->linear = (struct td_gpu_linear){.m = (int)x.m,
                                       .n = (int)x.n,
                                       .k = (int)x.k,
                                       .lda = (int)stride_of(&x, x.lda, x.k),
                                       .ldc = (int)stride_of(&x, x.ldc, x.n),
                                       .bf16 = x.a_dtype == TD_DT_BF16};
    return NULL;
}

static const char *round_nothing(const struct td_gpu_prepared *p)
{
    (void)p;
    return "none";
}

static int upload_input(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                        const char *role, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(p->op, role);

    return td_gpu_memory_upload(s, p, at, t->data, t->size_bytes, t->align, err);
}

static int upload_gemm(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int rc = td_gpu_blas_start(s->blas, err);

    td_gpu_memory_name_weights(p, "");
    if (!rc)
        rc = upload_input(s, p, TD_GPU_AT_A, "a", err);
    if (!rc)
        rc = upload_input(s, p, TD_GPU_AT_W, "w", err);
    if (!rc && td_op_in(p->op, "bias"))
        rc = upload_input(s, p, TD_GPU_AT_BIAS, "bias", err);
    p->c_bytes = p->op->out.size_bytes;
    if (!rc)
        rc = td_gpu_memory_alloc(s, p, TD_GPU_AT_C, p->c_bytes, p->op->out.align, err);
    p->linear.a = p->memory[TD_GPU_AT_A].address;
    p->linear.w = p->memory[TD_GPU_AT_W].address;
    p->linear.c = p->memory[TD_GPU_AT_C].address;
    p->linear.bias = p->memory[TD_GPU_AT_BIAS].address;
    return rc;
}

static int enqueue_gemm(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    return p->linear.m ? td_gpu_blas_linear(s->blas, &p->linear, err) : TD_OK;
}

/* No varies: in one stream of one handle cuBLAS adds what it splits over K in one order. */
const struct td_gpu_kind td_gpu_kind_gemm = {
    .name = "gemm", .choose = choose_gemm, .rounding = round_nothing, .upload = upload_gemm, .enqueue = enqueue_gemm};
