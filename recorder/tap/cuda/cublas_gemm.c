/* cublas_gemm.c - the tap before cublasHgemm and cublasGemmEx.
 * SPDX-License-Identifier: Apache-2.0
 *
 * cublasHgemm is the second half of a GEMM of vLLM's: it multiplies with the W that
 * reconstruct_exllama has just dequantised. Source: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu,
 * gemm_half_q_half_cuda: for more than 50 rows it calls reconstruct_exllama(..., temp_dq) and then
 * cublasHgemm(handle, N, N, size_n, size_m, size_k, &one, temp_dq, size_n, a, size_k, &zero, c,
 * size_n). cuBLAS is column-major, so in rows that is C = A W. Any other call is passed on. The
 * address of W, and that no other kernel was launched between the two, tell which calls are meant.
 * So do they for torch.matmul with the W that awq_dequantize has made (torch_made_w.h), [k, n] in rows, which asks
 * cublasGemmEx(N, N, n, m, k, 1, W, n, A, lda, 0, C, ldc), added in float32.
 *
 * torch computes layers that are not quantised with cublasGemmEx. It is recorded unless the server was
 * started with TD_TAP_CUBLAS=0. torch's linear without a bias is GemmEx(T, N, n, m,
 * k, 1, W, k, A, lda, 0, C, ldc) with W [n, k] dense, float16 or bfloat16 throughout, added in
 * float32 (ATen/cuda/CUDABlas.cpp, gemm_internal). See cublas_linear.h. */
#include <errno.h>

#include "recorder/tap/cuda/cublas_linear.h"
#include "recorder/tap/gpu/gpu_captured_w.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_inner.h"
#include "recorder/tap/gpu/gpu_threads.h"

#define FAILED 13                     /* CUBLAS_STATUS_EXECUTION_FAILED */

typedef int hgemm_fn(void *handle, int trans_a, int trans_b, int m, int n, int k,
                     const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                     const uint16_t *beta, uint16_t *c, int ldc);
TAP_EXPORT hgemm_fn cublasHgemm;

typedef int gemm_ex_fn(void *handle, int trans_a, int trans_b, int m, int n, int k,
                       const void *alpha, const void *a, int a_type, int lda, const void *b,
                       int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                       int compute, int algorithm);
TAP_EXPORT gemm_ex_fn cublasGemmEx;

static struct tap_symbol gemm_ex = {.name = "cublasGemmEx"}, symbol = {.name = "cublasHgemm"},
                         get_mode = {.name = "cublasGetPointerMode_v2"},
                         get_stream = {.name = "cublasGetStream_v2"};

enum { ONE = 0x3c00, ZERO = 0, MODE_HOST = 0, OP_N = 0, OP_T = 1 };
enum { TYPE_F16 = 2, TYPE_BF16 = 14, COMPUTE_32F = 68 }; /* cudaDataType, cublasComputeType_t */

/* Do the factors alpha and beta lie on the host? Those on the device cannot be read. Also finds the
 * stream. */
static bool is_readable(void *handle, const void *real, void **stream)
{
    int (*mode_of)(void *, int *) = (int (*)(void *, int *))tap_real_find(&get_mode, real);
    int (*stream_of)(void *, void **) = (int (*)(void *, void **))tap_real_find(&get_stream, real);
    int mode;

    return mode_of && stream_of && !mode_of(handle, &mode) && mode == MODE_HOST &&
           !stream_of(handle, stream);
}

/* Is it C = A W, unscaled, and nothing added? */
static bool is_product(void *handle, hgemm_fn *real, const uint16_t *alpha, const uint16_t *beta,
                       void **stream)
{
    return is_readable(handle, (const void *)real, stream) && alpha && beta && *alpha == ONE &&
           *beta == ZERO;
}

static void leave_library(uint64_t token, bool before, bool ok)
{
    int e = errno;

    tap_gpu_set_in_library_call(before);
    if (tap_gpu_come_in()) {
        tap_gpu_gate_leave_library(token, ok);
        tap_gpu_go_out();
    }
    errno = e;
}

int cublasHgemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha,
                const uint16_t *a, int lda, const uint16_t *b, int ldb, const uint16_t *beta,
                uint16_t *c, int ldc)
{
    int e = errno, rc;
    hgemm_fn *real = (hgemm_fn *)tap_real_find(&symbol, __builtin_return_address(0));
    uint64_t token = 0;
    void *stream = NULL;
    bool before, ours;

    errno = e;
    if (!real)
        return FAILED;
    if (!tap_armed() || trans_a || trans_b || lda != m || !tap_gpu_come_in())
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (tap_gpu_thread.inner)
        tap_gpu_inner_note_library(tap_gpu_thread.inner, symbol.name);
    ours = is_product(handle, real, alpha, beta, &stream) &&
           tap_gpu_gate_enter_library(symbol.name, stream, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c,
                                      n, m, k, ldb, ldc, &token);
    tap_gpu_go_out();
    errno = e;
    if (!ours)
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    before = tap_gpu_set_in_library_call(true);
    rc = real(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    leave_library(token, before, rc == 0);
    return rc;
}

/* ---- layers that are not quantised ----------------------------------------------------------- */

/* Is it C [m, n] = A [m, k] by W [n, k] in rows, of one type that is recorded? */
static bool is_linear(int trans_a, int trans_b, int m, int n, int k, int a_type, int lda,
                      int b_type, int c_type, int compute)
{
    return trans_a == OP_T && trans_b == OP_N && (a_type == TYPE_F16 || a_type == TYPE_BF16) &&
           b_type == a_type && c_type == a_type && compute == COMPUTE_32F && lda == k && m > 0 &&
           n > 0 && k > 0;
}

/* Is it C [m, n] = A [m, k] by W [k, n] in rows, of float16? */
static bool is_by_rows(int trans_a, int trans_b, int m, int n, int k, int a_type, int lda,
                       int b_type, int c_type, int compute)
{
    return trans_a == OP_N && trans_b == OP_N && a_type == TYPE_F16 && b_type == a_type &&
           c_type == a_type && compute == COMPUTE_32F && lda == m && m > 0 && n > 0 && k > 0;
}

/* Is nothing scaled, and nothing added? */
static bool is_plain(void *handle, gemm_ex_fn *real, const float *alpha, const float *beta,
                     void **stream)
{
    return is_readable(handle, (const void *)real, stream) && alpha && beta && *alpha == 1.0f &&
           *beta == 0.0f;
}

int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha,
                 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    int e = errno, rc;
    gemm_ex_fn *real = (gemm_ex_fn *)tap_real_find(&gemm_ex, __builtin_return_address(0));
    const struct tap_cublas_linear p = {(uintptr_t)b, (uintptr_t)a, 0, (uintptr_t)c, n, m, k,
                                        ldb,          ldc};
    const bool linear = is_linear(trans_a, trans_b, m, n, k, a_type, lda, b_type, c_type, compute),
               by_rows = is_by_rows(trans_a, trans_b, m, n, k, a_type, lda, b_type, c_type, compute);
    struct tap_gpu_launch l = {.stream = NULL};
    struct tap_gpu_capture_mark mark;
    uint64_t token = 0;
    bool before, ours, bf16 = a_type == TYPE_BF16;

    errno = e;
    if (!real)
        return FAILED;
    if (tap_gpu_captures_any() && !tap_gpu_thread.in_library_call &&
        (by_rows || (linear && tap_cublas_linear_wanted())) &&
        is_plain(handle, real, alpha, beta, &l.stream) &&
        tap_gpu_capture_begins(&mark, l.stream)) {
        errno = e;
        tap_gpu_set_in_library_call(true);
        rc = real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c,
                  c_type, ldc, compute, algorithm);
        tap_gpu_set_in_library_call(false);
        e = errno;
        if (!rc && linear)
            tap_cublas_linear_captured(&mark, &p, TAP_CUBLAS_GEMM_EX, bf16, &l);
        else if (!rc)
            tap_gpu_captured_w_multiplied(&mark, gemm_ex.name, p.w, p.a, p.c, p.m, p.n, p.k, p.lda,
                                          p.ldc);
        errno = e;
        return rc;
    }
    errno = e;
    if (tap_armed() && !tap_gpu_thread.in_library_call && by_rows && tap_gpu_come_in()) {
        ours = is_plain(handle, real, alpha, beta, &l.stream) &&
               tap_gpu_gate_enter_library(gemm_ex.name, l.stream, (uintptr_t)a, (uintptr_t)b,
                                          (uintptr_t)c, n, m, k, ldb, ldc, &token);
        tap_gpu_go_out();
        errno = e;
        if (!ours)
            tap_gpu_note_call();
        before = tap_gpu_set_in_library_call(ours);
        rc = real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c,
                  c_type, ldc, compute, algorithm);
        leave_library(token, before, rc == 0);
        return rc;
    }
    tap_gpu_note_call();
    if (!tap_armed() || !tap_cublas_linear_wanted() || !linear || !tap_gpu_come_in())
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta,
                    c, c_type, ldc, compute, algorithm);
    before = tap_gpu_set_in_library_call(true);
    /* Else the call is internal to another library call, which is recorded as one. */
    ours = !before && is_plain(handle, real, alpha, beta, &l.stream);
    if (ours)
        token = tap_cublas_linear_enter(&p, TAP_CUBLAS_GEMM_EX, bf16, &l);
    else
        tap_gpu_set_in_library_call(before);
    tap_gpu_go_out();
    errno = e;
    rc = real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c,
              c_type, ldc, compute, algorithm);
    tap_cublas_linear_leave(token, &l, before, rc == 0);
    return rc;
}
