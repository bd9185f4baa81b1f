/* gpu_decide.h - what becomes of a GEMM: recorded, in the flight recorder's ring, or counted, and why.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the holder of the gate, whose steps and last launch it is told. */
#ifndef TD_RECORDER_TAP_GPU_GPU_DECIDE_H
#define TD_RECORDER_TAP_GPU_GPU_DECIDE_H

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/gpu/gpu_steps.h"

#pragma GCC visibility push(hidden)

/* Why it is not recorded, before anything is copied; TAP_OPS_SENT: it may be.
 *   joined : it computes the next rows of the GEMM before
 * Asks the driver only where the step is recorded and the GEMM can be copied. */
enum tap_count tap_gpu_decide(const struct tap_gpu_steps *s, const struct tap_gpu_last_launch *last,
                              const struct tap_gpu_launch *l, bool joined);
/* A GEMM that is not recorded, for the reason `why`, goes into the flight recorder's ring. False: it
 * does not, and is counted. */
bool tap_gpu_decide_flight(const struct tap_gpu_steps *s, const struct tap_gpu_last_launch *last,
                           const struct tap_gpu_launch *l, uint64_t stream,
                           const struct tap_gpu_kernel *k, const struct td_gpu_work *w,
                           const char *library_function, bool joined, enum tap_count why);

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* Context of a launch that could not be recorded because the stage is not open; NULL: none. */
void *tap_gpu_wanted_context(void);
void tap_gpu_decide_forget(void);     /* in the child of a fork */

#pragma GCC visibility pop
#endif
