/* gpu_step_finder.h - where a step (a forward pass) begins, inferred from the order in which
 * weights are used.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No state of its own; one thread at a time per finder. */
#ifndef TD_RECORDER_TAP_GPU_GPU_STEP_FINDER_H
#define TD_RECORDER_TAP_GPU_GPU_STEP_FINDER_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct tap_gpu_step_finder {          /* zeroed: nothing is known */
    /* Address of the weights that begin a step; 0: none seen yet. */
    uint64_t first;
    uint64_t others_before;           /* count of other launches at the previous GEMM */
    uint64_t launches;                /* GEMMs since the step began */
    /* The most other launches between two GEMMs since the step began, and the weights of the GEMM
     * that followed them. */
    uint64_t gap, gap_at;
    unsigned again;                   /* how often a GEMM has used those weights since */
};
/* Only GEMMs with these weights can begin a step, or show that the first weights were wrong, until there
 * is another launch between two GEMMs. */
struct tap_gpu_step_marks { uint64_t first, gap_at; };
enum tap_gpu_step_place {
    TAP_GPU_STEP_WITHIN,              /* this GEMM belongs to the step at hand */
    TAP_GPU_STEP_BEGINS,              /* it is the first of a step */
    /* The assumed first weights were wrong; ignore GEMMs until the next BEGINS. */
    TAP_GPU_STEP_LOST,
};
/* A GEMM with these weights comes.
 *   others  : launches of other kernels so far
 *   waiting : no step has begun yet in this arm */
enum tap_gpu_step_place tap_gpu_step_finder_note(struct tap_gpu_step_finder *f, uint64_t weights,
                                                 uint64_t others, bool waiting);
/* So many GEMMs come one after the other, with no other launch between them and weights that are no
 * marks: they belong to the step at hand.
 *   weights : of the first of them, which none of the others has */
void tap_gpu_step_finder_pass(struct tap_gpu_step_finder *f, uint64_t n, uint64_t weights);
struct tap_gpu_step_marks tap_gpu_step_finder_marks(const struct tap_gpu_step_finder *f);
/* Forget all but the weights that begin a step: for a new arm, or after a rest. */
void tap_gpu_step_finder_reset(struct tap_gpu_step_finder *f, uint64_t others);

#pragma GCC visibility pop
#endif
