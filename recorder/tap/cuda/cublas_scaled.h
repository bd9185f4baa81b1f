/* cublas_scaled.h - a product of 8-bit floats by cublasLtMatmul, as torch's _scaled_mm makes it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the server's thread that makes the call. What is not here is as in cublas_linear.h. */
#ifndef TD_RECORDER_TAP_CUDA_CUBLAS_SCALED_H
#define TD_RECORDER_TAP_CUDA_CUBLAS_SCALED_H

#include "recorder/tap/cuda/cublas_linear.h"

#pragma GCC visibility push(hidden)

/* Beside the addresses and sizes of a tap_cublas_linear, whose bias has C's type:
 *   a_scales, w_scales : addresses of floats on the device; one, or one for each row of A, each
 *                        column of C
 *   the types          : static, as docs/format.md names them */
struct tap_cublas_scaled {
    uint64_t a_scales, w_scales;
    bool by_row, by_column;
    const char *a_type, *w_type, *c_type;
};

uint64_t tap_cublas_scaled_enter(const struct tap_cublas_linear *p, const struct tap_cublas_scaled *s,
                                 struct tap_gpu_launch *l);
void tap_cublas_scaled_captured(const struct tap_gpu_capture_mark *mark,
                                const struct tap_cublas_linear *p, const struct tap_cublas_scaled *s,
                                struct tap_gpu_launch *l);

#pragma GCC visibility pop
#endif
