/* tap_cuda_blas.c - cublasHgemm, with which vLLM multiplies the weights that reconstruct_exllama has just made whole: the second half of a GEMM; and
 * cublasGemmEx, with which torch computes layers that are not quantised.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu, gemm_half_q_half_cuda: for more than 50 rows it calls reconstruct_exllama(..., temp_dq) and then
 * cublasHgemm(handle, N, N, size_n, size_m, size_k, &one, temp_dq, size_n, a, size_k, &zero, c, size_n). cuBLAS is column-major, so that is C = A W in
 * rows. Any other call is passed on: which one it is, W's address tells, and that no other kernel was launched between the two.
 *
 * cublasGemmEx (TD_TAP_CUBLAS=1 at the server's start, else it is passed on): torch's linear without a bias is GemmEx(T, N, n, m, k, 1, W, k, A, lda, 0, C, ldc)
 * with W [n, k] dense, float16 or bfloat16 throughout, added in float32 (ATen/cuda/CUDABlas.cpp, gemm_internal). Every call of that form is taken for a layer,
 * its first factor for weights: attention multiplies in batches, by other functions. Where it is none after all, the op is right as it stands (W is copied
 * before the call as A is), and the next one of that address is dropped, as its sample of W is not what was sent. What it cannot be told from is a step that
 * begins anew at such an address. */
#include <errno.h>
#include <stdlib.h>

#include "recorder/tap/tap_cuda.h"

#define FAILED 13                     /* CUBLAS_STATUS_EXECUTION_FAILED */

typedef int hgemm_fn(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                     const uint16_t *beta, uint16_t *c, int ldc);
TAP_EXPORT hgemm_fn cublasHgemm;

typedef int gemm_ex_fn(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                       const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
TAP_EXPORT gemm_ex_fn cublasGemmEx;

static struct tap_symbol gemm_ex = {.name = "cublasGemmEx"}, symbol = {.name = "cublasHgemm"}, get_mode = {.name = "cublasGetPointerMode_v2"}, get_stream = {.name = "cublasGetStream_v2"};

enum { ONE = 0x3c00, ZERO = 0, MODE_HOST = 0, OP_N = 0, OP_T = 1 };
enum { TYPE_F16 = 2, TYPE_BF16 = 14, COMPUTE_32F = 68 }; /* cudaDataType, cublasComputeType_t */

/* Factors lie on the host; those on the device cannot be read. */
static bool is_readable(void *handle, const void *real, void **stream)
{
    int (*mode_of)(void *, int *) = (int (*)(void *, int *))tap_real_find(&get_mode, real);
    int (*stream_of)(void *, void **) = (int (*)(void *, void **))tap_real_find(&get_stream, real);
    int mode;

    return mode_of && stream_of && !mode_of(handle, &mode) && mode == MODE_HOST && !stream_of(handle, stream);
}

/* C = A W, and no more. */
static bool is_product(void *handle, hgemm_fn *real, const uint16_t *alpha, const uint16_t *beta, void **stream)
{
    return is_readable(handle, (const void *)real, stream) && alpha && beta && *alpha == ONE && *beta == ZERO;
}

int cublasHgemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc)
{
    int e = errno, rc;
    hgemm_fn *real = (hgemm_fn *)tap_real_find(&symbol, __builtin_return_address(0));
    uint64_t token = 0;
    void *stream = NULL;
    bool before, ours;

    errno = e;
    if (!real)
        return FAILED;
    if (!tap_armed() || trans_a || trans_b || lda != m || !tap_cuda_come_in())
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    ours = is_product(handle, real, alpha, beta, &stream) &&
           tap_cuda_lane_enter_product(symbol.name, stream, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, n, m, k, ldb, ldc, &token);
    tap_cuda_go_out();
    errno = e;
    if (!ours)
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    before = tap_cuda_cover(true);
    rc = real(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    tap_cuda_cover(before);
    e = errno;
    if (tap_cuda_come_in()) {
        tap_cuda_lane_leave_product(token, rc == 0);
        tap_cuda_go_out();
    }
    errno = e;
    return rc;
}

/* ---- layers that are not quantised --------------------------------------------------------------------------------- */

/* The lane reads a call as it reads a launch: by a row whose parameters lie here. */
struct linear { uint64_t a, w, c; int32_t m, n, k, lda, ldc; };
enum { N_FIELDS = 8, MOST = 1 << 28 }; /* as adapter.c has it: no product of two sizes by 8 overflows */
static const struct td_gpu_field fields[N_FIELDS] = {{"a", 8, TD_GPU_IN}, {"w", 8, TD_GPU_WEIGHT}, {"c", 8, TD_GPU_OUT}, {"m", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR},
                                                     {"k", 4, TD_GPU_SCALAR}, {"lda", 4, TD_GPU_SCALAR}, {"ldc", 4, TD_GPU_SCALAR}};

static struct td_gpu_operand matrix(int field, const struct td_gpu_values *v, const char *dtype, int64_t rows, int64_t cols, int64_t stride)
{
    return (struct td_gpu_operand){.role = fields[field].name, .dtype = dtype, .use = fields[field].use, .address = v->value[field], .ndim = 2, .shape = {rows, cols},
                                   .row_stride = stride, .bytes = (uint64_t)rows * (uint64_t)cols * 2};
}

/* a [m, k], rows lda apart, w [n, k], c [m, n], rows ldc apart */
static bool read_linear(const struct td_gpu_values *v, const char *dtype, struct td_gpu_work *w)
{
    const int64_t lda = (int32_t)v->value[6], ldc = (int32_t)v->value[7];

    w->m = (int32_t)v->value[3];
    w->n = (int32_t)v->value[4];
    w->k = (int32_t)v->value[5];
    if (!v->value[0] || !v->value[1] || !v->value[2] || w->n < 1 || w->k < 1 || w->n > MOST || w->k > MOST || lda < w->k || ldc < w->n || lda > MOST || ldc > MOST)
        return false;
    w->op[0] = matrix(0, v, dtype, w->m, w->k, lda);
    w->op[1] = matrix(1, v, dtype, w->n, w->k, w->k);
    w->op[2] = matrix(2, v, dtype, w->m, w->n, ldc);
    w->n_op = 3;
    return true;
}

static bool read_f16(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    (void)row;
    return read_linear(v, "F16", w);
}

static bool read_bf16(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    (void)row;
    return read_linear(v, "BF16", w);
}

#define ROW(read) {"cublasGemmEx", "cublasGemmEx", "gemm", "checkpoint", fields, N_FIELDS, 0, NULL, 0, read}
static const struct td_gpu_adapter rows[] = {ROW(read_f16), ROW(read_bf16)};
static const struct tap_cuda_kernel calls[] = {{.row = &rows[0], .symbol = "cublasGemmEx"}, {.row = &rows[1], .symbol = "cublasGemmEx"}};

static bool is_wanted(void)
{
    static _Atomic int wanted;         /* 0: not looked yet; 1: no; 2: yes */
    int now = atomic_load_explicit(&wanted, memory_order_relaxed);
    const char *set;

    if (!now) {
        set = getenv("TD_TAP_CUBLAS");
        now = set && *set == '1' ? 2 : 1;
        atomic_store_explicit(&wanted, now, memory_order_relaxed);
    }
    return now == 2;
}

/* A [m, k] and C [m, n] in rows, of that type, by W [n, k]. */
static bool is_linear(int trans_a, int trans_b, int m, int n, int k, int a_type, int lda, int b_type, int c_type, int compute)
{
    return trans_a == OP_T && trans_b == OP_N && (a_type == TYPE_F16 || a_type == TYPE_BF16) && b_type == a_type && c_type == a_type && compute == COMPUTE_32F && lda == k
        && m > 0 && n > 0 && k > 0;
}

/* Nothing is scaled, nothing added. */
static bool is_plain(void *handle, gemm_ex_fn *real, const float *alpha, const float *beta, void **stream)
{
    return is_readable(handle, (const void *)real, stream) && alpha && beta && *alpha == 1.0f && *beta == 0.0f;
}

/* 0: not taken. */
static uint64_t enter_linear(struct linear *p, int type, struct tap_cuda_launch *l)
{
    void *params[N_FIELDS] = {&p->a, &p->w, &p->c, &p->m, &p->n, &p->k, &p->lda, &p->ldc};
    uint64_t token;

    l->params = params;
    if (tap_driver.ctx_current)
        tap_driver.ctx_current(&l->context);
    token = tap_cuda_lane_enter(l, &calls[type == TYPE_BF16]);
    l->params = NULL;
    return token;
}

int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    int e = errno, rc;
    gemm_ex_fn *real = (gemm_ex_fn *)tap_real_find(&gemm_ex, __builtin_return_address(0));
    struct linear p = {(uintptr_t)b, (uintptr_t)a, (uintptr_t)c, n, m, k, ldb, ldc};
    struct tap_cuda_launch l = {.stream = NULL};
    uint64_t token = 0;
    bool before, ours;

    errno = e;
    if (!real)
        return FAILED;
    if (!tap_armed() || !is_wanted() || !is_linear(trans_a, trans_b, m, n, k, a_type, lda, b_type, c_type, compute) || !tap_cuda_come_in())
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm);
    before = tap_cuda_cover(true);
    ours = !before && is_plain(handle, real, alpha, beta, &l.stream); /* else part of a product that is seen as a whole */
    if (ours)
        token = enter_linear(&p, a_type, &l);
    else
        tap_cuda_cover(before);
    tap_cuda_go_out();
    errno = e;
    rc = real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm);
    tap_cuda_cover(before);
    e = errno;
    if (token && tap_cuda_come_in()) {
        tap_cuda_lane_leave(token, &l, rc == 0);
        tap_cuda_go_out();
    }
    errno = e;
    return rc;
}
