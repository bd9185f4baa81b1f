/* gpu_inner.h - the launches inside a call that is recorded as one op: a kernel that an adapter knows
 * says how it was launched, so that a replay can launch it again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They are seen if launches are watched (CUPTI, HIP) while the call runs; an op is whole without
 * them. Pure functions on descriptions, but for tap_gpu_thread. */
#ifndef TD_RECORDER_TAP_GPU_GPU_INNER_H
#define TD_RECORDER_TAP_GPU_GPU_INNER_H

#include "recorder/tap/gpu/gpu_gemm.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_INNER 8                /* of vLLM's Marlin, more than 8,192 rows have more */

struct tap_gpu_inner {
    struct {
        const struct tap_gpu_kernel *kernel;
        unsigned grid[3], block[3], shared_bytes;
        int64_t rows;                  /* those that it computes */
    } launch[TAP_GPU_INNER];
    int n;
    int64_t rows;                      /* of all launches; -1: there were too many, or others */
    const char *library_function;      /* the launch only dequantises W, and this multiplies */
    const char *rounding;              /* as the adapter says it; NULL: nothing is rounded */
};

/* Note a launch of this thread inside the call that computes *w, if it is part of the same product:
 * one of the kernels that the operator is known to have, with the same weight. k->adapter is not
 * NULL. */
void tap_gpu_inner_note(struct tap_gpu_inner *in, const struct td_gpu_work *w,
                        const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k);
/* A library's function multiplies inside the call; static. */
void tap_gpu_inner_note_library(struct tap_gpu_inner *in, const char *function);
/* Do the launches compute all rows of *w? */
bool tap_gpu_inner_is_whole(const struct tap_gpu_inner *in, const struct td_gpu_work *w);

#pragma GCC visibility pop
#endif
