/* tap_cuda_blas.c - cublasHgemm, with which vLLM multiplies the weights that reconstruct_exllama has just made whole: the second half of a GEMM.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu, gemm_half_q_half_cuda: for more than 50 rows it calls reconstruct_exllama(..., temp_dq) and then
 * cublasHgemm(handle, N, N, size_n, size_m, size_k, &one, temp_dq, size_n, a, size_k, &zero, c, size_n). cuBLAS is column-major, so that is C = A W in
 * rows. Any other call is passed on: which one it is, W's address tells, and that no other kernel was launched between the two. */
#include <errno.h>

#include "recorder/tap/tap_cuda.h"

#define FAILED 13                     /* CUBLAS_STATUS_EXECUTION_FAILED */

typedef int hgemm_fn(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                     const uint16_t *beta, uint16_t *c, int ldc);
TAP_EXPORT hgemm_fn cublasHgemm;

static struct tap_symbol symbol = {.name = "cublasHgemm"}, get_mode = {.name = "cublasGetPointerMode_v2"}, get_stream = {.name = "cublasGetStream_v2"};

enum { ONE = 0x3c00, ZERO = 0, MODE_HOST = 0 };

/* C = A W, and no more: factors that lie on the device cannot be read. */
static bool is_product(void *handle, hgemm_fn *real, const uint16_t *alpha, const uint16_t *beta, void **stream)
{
    int (*mode_of)(void *, int *) = (int (*)(void *, int *))tap_real_find(&get_mode, (const void *)real);
    int (*stream_of)(void *, void **) = (int (*)(void *, void **))tap_real_find(&get_stream, (const void *)real);
    int mode;

    return mode_of && stream_of && !mode_of(handle, &mode) && mode == MODE_HOST && alpha && beta && *alpha == ONE && *beta == ZERO && !stream_of(handle, stream);
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
