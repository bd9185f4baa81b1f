/* hip_blas.c - the tap before hipblasHgemm, the second half of a GEMM of vLLM's on ROCm: it
 * multiplies with the W that reconstruct_exllama has just dequantised.
 * SPDX-License-Identifier: Apache-2.0
 *
 * cublas_gemm.c says which call it is. Source: vLLM's csrc/quantization/gptq/q_gemm.cu, where
 * hipblasHgemm stands for cublasHgemm under USE_ROCM; hipblas.h: numbers of operations, pointer
 * modes and statuses, and that a hipblasHalf is a uint16_t. */
#include <errno.h>

#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_inner.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/hip/hip_launch.h"
#include "recorder/tap/hip/hip_load.h"

enum { FAILED = 5 /* HIPBLAS_STATUS_EXECUTION_FAILED */, OP_N = 111, MODE_HOST = 0 };
enum { ONE = 0x3c00, ZERO = 0 };      /* of float16 */

#define ARGUMENTS \
    (void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, \
     const uint16_t *a, int lda, const uint16_t *b, int ldb, const uint16_t *beta, uint16_t *c, \
     int ldc)
#define VALUES (handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
typedef int hgemm_fn ARGUMENTS;
TAP_EXPORT hgemm_fn hipblasHgemm;

static struct tap_symbol symbol = {.name = "hipblasHgemm"},
                         get_mode = {.name = "hipblasGetPointerMode"},
                         get_stream = {.name = "hipblasGetStream"};

/* Is it C = A W, unscaled, and nothing added? Factors that lie on the device cannot be read. */
static bool is_product(void *handle, hgemm_fn *real, const uint16_t *alpha, const uint16_t *beta,
                       void **stream)
{
    int (*mode_of)(void *, int *) =
        (int (*)(void *, int *))tap_real_find(&get_mode, (const void *)real);
    int (*stream_of)(void *, void **) =
        (int (*)(void *, void **))tap_real_find(&get_stream, (const void *)real);
    int mode;

    return mode_of && stream_of && !mode_of(handle, &mode) && mode == MODE_HOST && alpha && beta &&
           *alpha == ONE && *beta == ZERO && !stream_of(handle, stream);
}

int hipblasHgemm ARGUMENTS
{
    int e = errno, rc, error;
    hgemm_fn *real = (hgemm_fn *)tap_real_find(&symbol, __builtin_return_address(0));
    uint64_t token = 0;
    void *stream = NULL;
    bool before, ours;

    errno = e;
    if (!real)
        return FAILED;
    if (trans_a != OP_N || trans_b != OP_N || lda != m || !tap_hip_come_in())
        return real VALUES;
    error = tap_hip.peek_error();
    if (tap_gpu_thread.inner)
        tap_gpu_inner_note_library(tap_gpu_thread.inner, symbol.name);
    ours = is_product(handle, real, alpha, beta, &stream) &&
           tap_gpu_gate_enter_library(symbol.name, stream, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c,
                                      n, m, k, ldb, ldc, &token);
    tap_hip_restore_error(error);
    tap_gpu_go_out();
    errno = e;
    if (!ours)
        return real VALUES;
    before = tap_gpu_set_in_library_call(true);
    rc = real VALUES;
    tap_gpu_set_in_library_call(before);
    e = errno;
    if (tap_hip_come_in()) {
        error = rc ? -1 : tap_hip.peek_error();
        tap_gpu_gate_leave_library(token, rc == 0);
        if (!rc)
            tap_hip_restore_error(error);
        tap_gpu_go_out();
    }
    errno = e;
    return rc;
}
