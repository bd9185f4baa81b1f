/* cuda_graphs.h - CUDA graphs whose capture the tap watched (record --graphs): what they hold, and what their launches bring.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   cuda_graphs.c  captures, graphs coming and going, launches of graphs      cuda_graph_plans.c  what is known of them: plans, slots, kernels
 *
 * Chosen when the server starts (TD_TAP_GRAPHS in its environment): the tap is then CUPTI's subscriber from the start to the end of the process. Around
 * each captured launch of a kernel that a row knows it has copies captured too, of A before and of C after it, into a slot of a piece of device memory,
 * the arena. So each launch of the graph leaves the true operands there. While armed, after such a launch, on its stream, the slots are taken as those
 * of eager launches are: into the stage's ring, by the lane.
 *
 * All captures use the arena from its start: of the graphs of one server one runs after the other, on one stream. Where two streams are seen, nothing of
 * graphs is taken any more in that arm.
 *
 * Whose slots an executable graph has: capture -> CUgraph (cuStreamGetCaptureInfo) -> CUgraphExec (cuGraphInstantiate*, cuGraphExecUpdate*). A graph
 * that is changed by hand after its capture is forgotten, and is one "whose capture was not watched". */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPHS_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPHS_H

#include "recorder/tap/gpu/gpu_parts.h"

#pragma GCC visibility push(hidden)

/* ---- cuda_graph_plans.c: all with the lock of cuda_graphs.c held --------------------------------------------------- */

struct tap_cuda_slot {                /* a captured launch: copies of its inputs and output lie at launch.slot after each launch of the graph */
    struct tap_cuda_slot *next;
    const struct tap_cuda_kernel *kernel;
    struct tap_cuda_launch launch;    /* only its numbers */
    struct td_gpu_work work;
    bool goes_on;                     /* the launch before was of the same op */
    bool dead;                        /* not all of its op is in slots */
};

#define TAP_CUDA_TALLIES 96           /* kernels that differ, in one graph */
struct tap_cuda_plan {                /* what a graph does */
    uint64_t capture;                 /* the driver's number of it */
    bool ended;                       /* the capture is over, and was not in vain */
    uint32_t users;                   /* handles that stand for it, and who walks its slots */
    struct tap_cuda_slot *first, *last; /* in the order of launches */
    uint64_t used;                    /* of the arena, bytes */
    uint64_t left, left_bytes;        /* ops of known kernels without slots */
    uint64_t weights;                 /* of the op at hand: its launches follow each other */
    struct tap_cuda_slot *op;         /* its first slot */
    bool op_left;                     /* it is counted in left */
    bool nested;                      /* another graph is launched in it, which has the same slots */
    struct { struct tap_cuda_kernel *kernel; uint32_t n; } tally[TAP_CUDA_TALLIES];
    unsigned n_tallies;
    uint64_t unnamed;                 /* launches beyond those of tally */
};

enum tap_cuda_handle { TAP_CUDA_GRAPH, TAP_CUDA_EXEC };

bool tap_cuda_plans_open(void);       /* false: no memory */
void tap_cuda_plans_forget(void);     /* in the child of a fork */
/* The plan of the capture that goes on in `graph`; NULL: there are too many. */
struct tap_cuda_plan *tap_cuda_plan_capture(void *graph, uint64_t capture);
struct tap_cuda_plan *tap_cuda_plan_at(enum tap_cuda_handle kind, const void *handle);
/* From now on the handle stands for this plan (of its earlier one no more); NULL: for none. A plan that no handle stands for is free. */
void tap_cuda_plan_link(enum tap_cuda_handle kind, void *handle, struct tap_cuda_plan *p);
/* One user less. */
void tap_cuda_plan_release(struct tap_cuda_plan *p);
void tap_cuda_plans_forget_graphs(void); /* all CUgraph; what was made of them before stays as it is */
/* A launch of this op has a slot of the arena (in launch.slot its offset), or is counted in left: NULL. */
struct tap_cuda_slot *tap_cuda_plan_slot(struct tap_cuda_plan *p, const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k, const struct td_gpu_work *w, uint64_t arena_bytes);
/* The op at hand is not whole: none of it is taken. */
void tap_cuda_plan_leave_out(struct tap_cuda_plan *p, uint64_t bytes);
/* `inner` is launched within this graph: both write into the arena from its start, so nothing of either is taken. */
void tap_cuda_plan_nest(struct tap_cuda_plan *p, const struct tap_cuda_plan *inner);
/* A launch of that kernel, for the count of those that a graph makes. */
void tap_cuda_plan_tally(struct tap_cuda_plan *p, struct tap_cuda_kernel *k);
/* As tap_cuda_kernel_of and tap_cuda_kernel_at, but kept for the life of the process. The second one from any thread. */
struct tap_cuda_kernel *tap_cuda_plan_kernel(void *handle, const char *symbol);
struct tap_cuda_kernel *tap_cuda_plan_kernel_at(unsigned i, bool *used);

#pragma GCC visibility pop
#endif
