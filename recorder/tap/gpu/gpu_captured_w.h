/* gpu_captured_w.h - the W that a captured call dequantised last, for a library to multiply with in the
 * same graph: what gpu_last_w.h is for calls that are computed at once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The address of W joins the two calls, and that nothing was captured between them on their stream that
 * may write there: the capture's last node is the same after the one and before the other, or a chain of
 * a few kernels leads from the one to the other that are not told of W. Any thread of the server. */
#ifndef TD_RECORDER_TAP_GPU_GPU_CAPTURED_W_H
#define TD_RECORDER_TAP_GPU_GPU_CAPTURED_W_H

#include "recorder/tap/gpu/gpu_captures.h"

#pragma GCC visibility push(hidden)

/* After a captured call that only dequantised W, which lies where the output of *w says.
 *   before : how far the capture was before it */
void tap_gpu_captured_w_keep(const struct tap_gpu_capture_mark *before, const struct tap_gpu_launch *l,
                             const struct tap_gpu_kernel *k, const struct td_gpu_work *w);
/* A library's product was captured: c [m, n] = a [m, k] by the floats at w. If they are that W, whoever
 * follows captures is told of the op that both calls are.
 *   before   : how far the capture was before the product
 *   function : of the library; static */
void tap_gpu_captured_w_multiplied(const struct tap_gpu_capture_mark *before, const char *function,
                                   uint64_t w, uint64_t a, uint64_t c, int64_t m, int64_t n, int64_t k,
                                   int64_t lda, int64_t ldc);
/* The capture of that number is over, or has failed. True: it has a W whose product was not seen. */
bool tap_gpu_captured_w_over(uint64_t capture);
void tap_gpu_captured_w_forget(void); /* in the child of a fork */

#pragma GCC visibility pop
#endif
