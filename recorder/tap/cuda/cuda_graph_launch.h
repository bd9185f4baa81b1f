/* cuda_graph_launch.h - a graph is launched: its ops pass the launch gate.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the thread that launches, inside the tap (gpu_threads.h) but for note(). All graphs copy to the
 * same memory: what is right there, cuda_graph_arena.h knows. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPH_LAUNCH_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPH_LAUNCH_H

#include "recorder/tap/cuda/cuda_graph_plans.h"
#include "recorder/tap/gpu/gpu_step_finder.h"

#pragma GCC visibility push(hidden)

struct tap_cuda_graph_launch {
    void *stream, *context;           /* context NULL: that of the graph's launches, or the current one */
    /* Launched in view of the tap, by a twin or not; a twin copies samples of weights too. False: the graph
     * copies by itself (--graphs). */
    bool by_twins;
    uint64_t stream_number;           /* with by_twins, from begin on */
    /* Where the graph that runs copies the operands of its ops; 0 bytes: it copies none. */
    uint64_t arena, bytes;
    uint64_t number;                  /* of the launch, if it copies (cuda_graph_arena.h); else 0 */
    uint32_t part;                    /* of its ops, which it copies */
    /* The gate knows its first op already: tap_cuda_graph_launch_is_recorded(). */
    bool noted, recorded;
    bool can_copy;                    /* the graph has a twin */
    struct tap_gpu_step_marks marks;  /* of the step finder, then */
    struct tap_cuda_plan *plan;       /* set by begin; NULL: the graph is not known */
};

/* Before a graph is launched, armed or not: one that is captured into another graph, and the stream
 * of one that has slots. True: that one is launched now. */
bool tap_cuda_graph_launch_note(const void *exec, void *stream);
/* Look up the plan, which stays until end. With by_twins it notes the stream as well. */
void tap_cuda_graph_launch_begin(struct tap_cuda_graph_launch *l, const void *exec);
/* Before the launch: is the step to which it belongs recorded, or in the flight recorder's ring? Not
 * where two streams were seen.
 *   can_copy : there is a graph that would copy its operands */
bool tap_cuda_graph_launch_is_recorded(struct tap_cuda_graph_launch *l, bool can_copy);
/* After it: count the graph's launches, and record what they computed, or why not.
 *   ok : it was launched */
void tap_cuda_graph_launch_end(struct tap_cuda_graph_launch *l, bool ok);

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_cuda_graph_launch_arm(void); /* at each arm, while nobody is inside the tap */

#pragma GCC visibility pop
#endif
