/* gpu_steps.h - the steps of the server: where each begins, whether it is recorded, what recording
 * it cost, and how long nothing need be watched.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A step is recorded whole or not at all. The gate has one struct tap_gpu_steps. Its holder alone
 * reads and writes it, but for the atomics, which the tap's thread may read at any time. */
#ifndef TD_RECORDER_TAP_GPU_GPU_STEPS_H
#define TD_RECORDER_TAP_GPU_GPU_STEPS_H

#include "kernels/adapters/adapter.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/gpu_step_finder.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_steps {
    struct tap_gpu_step_finder finder;
    struct tap_sampler sampler;
    uint64_t number;                  /* of the step at hand; goes on from arm to arm */
    enum tap_decision doing;             /* what happens to its GEMMs */
    bool may_send_weights;
    int64_t used_ns;                  /* time spent on recording, not yet reported to the sampler */
    int64_t began_ns;                 /* when this step began; 0: its begin was not seen */
    int64_t step_ns;                  /* how long one step takes, about */
    /* How many steps from now on lie in no window of the sample: they need not be watched. */
    _Atomic uint64_t free;
    int64_t woken_ns;                 /* end of the last rest */
    uint64_t unseen;                  /* steps in that rest, if the server was not idle */
    uint32_t kinds;                   /* of ops, in the last arm: enum tap_kinds */
    _Atomic bool boundary_due;        /* something was recorded since the last boundary */
};

/* ---- the holder of the gate ------------------------------------------------------------------ */
/* A GEMM comes; it may begin a step. others: launches of other kernels so far. Not for launches
 * that compute further rows of a GEMM. A step whose first GEMM cannot be copied is not recorded. */
void tap_gpu_steps_note(struct tap_gpu_steps *s, const struct td_gpu_work *w, uint64_t others,
                        bool can_copy);
/* Put a boundary into the queue and hand over what was staged before it. False: the queue is full,
 * and boundary_due stays. */
bool tap_gpu_steps_put_boundary(struct tap_gpu_steps *s);
/* The step at hand is over for us: what comes belongs to no step until the next one begins. */
void tap_gpu_steps_interrupt(struct tap_gpu_steps *s, uint64_t others);
/* How long nothing need be watched from now on, in ns; 0: the next step must be. Remembers how many
 * steps will go by unseen. */
int64_t tap_gpu_steps_rest_ns(struct tap_gpu_steps *s);

/* ---- the tap's thread ------------------------------------------------------------------------ */
#define TAP_GPU_REST_STEPS 8u         /* for fewer steps a rest is not worth it */
void tap_gpu_steps_clear(struct tap_gpu_steps *s, uint64_t others); /* at each arm */

#pragma GCC visibility pop
#endif
