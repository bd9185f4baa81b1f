/* cublas_linear.h - a layer that is not quantised, multiplied by cuBLAS: recorded as if the
 * library's call were one launch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the server's thread that makes the call. */
#ifndef TD_RECORDER_TAP_CUDA_CUBLAS_LINEAR_H
#define TD_RECORDER_TAP_CUDA_CUBLAS_LINEAR_H

#include "recorder/tap/gpu/gpu_captures.h"

#pragma GCC visibility push(hidden)

/* c [m, n] = a [m, k] by w [n, k], dense, + bias [n] (0: none).
 *   a, w, bias, c : addresses; all of one type, F16 or BF16; rows of a and c are lda and ldc
 *                   elements apart */
struct tap_cublas_linear { uint64_t a, w, bias, c; int32_t m, n, k, lda, ldc; };
enum tap_cublas_call { TAP_CUBLAS_GEMM_EX, TAP_CUBLAS_LT_MATMUL };

bool tap_cublas_linear_wanted(void);  /* not where the server was started with TD_TAP_CUBLAS=0 */
/* Before the call, on l->stream, inside the tap (gpu_threads.h); fills in l->context. Returns the
 * token for leave; 0: not recorded. */
uint64_t tap_cublas_linear_enter(const struct tap_cublas_linear *p, enum tap_cublas_call call,
                                 bool bf16, struct tap_gpu_launch *l);
/* After a call that was captured into a graph, on l->stream, which succeeded. */
void tap_cublas_linear_captured(const struct tap_gpu_capture_mark *mark,
                                const struct tap_cublas_linear *p, enum tap_cublas_call call,
                                bool bf16, struct tap_gpu_launch *l);
/* After the call, recorded or not, outside the tap.
 *   in_library_call : what tap_gpu_set_in_library_call() is to be set back to
 *   done            : the call succeeded
 * Leaves errno as it is. */
void tap_cublas_linear_leave(uint64_t token, struct tap_gpu_launch *l, bool in_library_call,
                             bool done);

#pragma GCC visibility pop
#endif
