/* cuda_graph_plans.h - what is known of CUDA graphs: which handle stands for which capture, and
 * which launches were captured in it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of it with the lock of cuda_graph_follow.h held, but for a captured product: the thread that
 * launches its graph, and the sender, read it without. So it never changes, apart from what is the
 * gate's (gpu_product.h), and its place is used again only when the queue is past it. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPH_PLANS_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPH_PLANS_H

#include "recorder/tap/gpu/gpu_product.h"
#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_step_finder.h"

#pragma GCC visibility push(hidden)

#define TAP_CUDA_TAILS 4u             /* nodes behind which a call's results are complete */

/* A captured launch, or call of a library or an operator: a graph that copies its inputs and output
 * does so to `slot` of an arena. */
struct tap_cuda_captured {
    struct tap_cuda_captured *next;
    uint64_t slot, bytes;             /* in the arena; slot TAP_CUDA_NO_SLOT: it does not fit */
    uint32_t part;                    /* of the graph's launches, which a twin copies in turn */
    _Atomic bool uncopyable;          /* no twin can copy its operands */
    bool joins;                       /* the launch before was of the same op */
    /* Not all launches of its op have slots: it is not recorded. */
    bool left_out;
    struct tap_gpu_product product;
    /* What came after it in the capture depends on these; with twins (cuda_twins.h). */
    void *tail[TAP_CUDA_TAILS];
    unsigned n_tails;
    /* The node before the call's own, NULL: they are the graph's first; if has_head. */
    void *head;
    bool has_head;
    struct tap_gpu_queue_mark put;    /* free: it is used again when the queue is past that */
};

enum tap_cuda_twin_state {
    TAP_CUDA_TWIN_NOT_YET,
    TAP_CUDA_TWIN_WANTED,
    TAP_CUDA_TWIN_READY,
    TAP_CUDA_TWIN_TURNS,              /* ready, and one of the next part is wanted */
    TAP_CUDA_NO_TWIN                  /* none can be made of it */
};
#define TAP_CUDA_NO_SLOT UINT64_MAX

#define TAP_CUDA_TALLIES 96           /* different kernels in one graph */
struct tap_cuda_plan {                /* what a graph does */
    uint64_t capture;                 /* the driver's number of it */
    bool ended;                       /* the capture is over, and succeeded */
    /* Handles that stand for it, and threads that walk its slots. */
    uint32_t users;
    struct tap_cuda_captured *first, *last; /* in the order of launches */
    uint64_t used;                    /* of the arena, bytes */
    uint64_t left, left_bytes;        /* ops of known kernels without slots */
    uint64_t weights;                 /* of the op at hand: its launches follow each other */
    struct tap_cuda_captured *op;         /* the first slot of the op at hand */
    bool op_left;                     /* the op at hand is counted in left */
    /* Another graph is launched in it, which has the same slots. */
    bool nested;
    /* Launches by kernel. */
    struct { struct tap_gpu_kernel *kernel; uint32_t n; } tally[TAP_CUDA_TALLIES];
    unsigned n_tallies;
    uint64_t unnamed;                 /* launches beyond those of tally */
    /* Of cuda_graph_launch.c, since a launch: the ops, and whether the step finder, with those marks,
     * knows none but the first of them. */
    struct {
        bool known, asked, are_within;
        uint64_t n, bytes, later, second;
        struct tap_gpu_step_marks marks;
    } sum;
    /* Of cuda_twins.c: a copy of the graph as it was captured, and what is instantiated of it. */
    void *base, *twin;
    void *context;                    /* in which its products were captured; NULL: not known */
    unsigned long long flags;         /* of the server's own instantiation */
    enum tap_cuda_twin_state twin_state;
    uint32_t launching;               /* threads that launch the twin, or read what it copied */
    uint64_t nodes, twin_bytes;       /* of base; what the twin counts for */
    int64_t launched_ns, tried_ns;    /* the last launch; when a twin was tried last */
    int64_t refused_ns;               /* a launch for which the driver refused the twin; 0: the last was taken */
    uint32_t parts, part;             /* into which its launches fall; that of the twin */
    uint32_t recorded;                /* launches of this twin */
    bool no_room;                     /* there was no room for a twin then */
};

enum tap_cuda_handle { TAP_CUDA_GRAPH, TAP_CUDA_EXEC };

bool tap_cuda_plans_open(void);       /* false: no memory */
void tap_cuda_plans_forget(void);     /* in the child of a fork */
/* The plan of the capture that goes on in `graph`; NULL: there are too many. */
struct tap_cuda_plan *tap_cuda_plan_capture(void *graph, uint64_t capture);
struct tap_cuda_plan *tap_cuda_plan_at(enum tap_cuda_handle kind, const void *handle);
/* From now on the handle stands for this plan, and no longer for an earlier one; NULL: for none. A
 * plan without users is free. */
void tap_cuda_plan_link(enum tap_cuda_handle kind, void *handle, struct tap_cuda_plan *p);
/* One user less. */
void tap_cuda_plan_release(struct tap_cuda_plan *p);
/* All CUgraph; executable graphs that were made of them stay as they are. */
void tap_cuda_plans_forget_graphs(void);
/* Plan i, NULL behind the last; one without users is free. */
struct tap_cuda_plan *tap_cuda_plan_number(unsigned i);
/* Called with a plan that is about to be free. */
void tap_cuda_plans_on_free(void (*fn)(struct tap_cuda_plan *p));
/* A launch of this op gets a slot of the arena; NULL: it does not, and is
 * counted in left. */
struct tap_cuda_captured *tap_cuda_plan_add(struct tap_cuda_plan *p, const struct tap_gpu_launch *l,
                                         const struct tap_gpu_kernel *k,
                                         const struct td_gpu_work *w, uint64_t arena_bytes);
/* A launch of the op at hand has no slot: none of the op is recorded. */
void tap_cuda_plan_leave_out(struct tap_cuda_plan *p, uint64_t bytes);
/* `inner` is launched within this graph: both write into the arena from its start, so nothing of
 * either is recorded. */
void tap_cuda_plan_nest(struct tap_cuda_plan *p, const struct tap_cuda_plan *inner);
/* Were products captured in it, or a graph that has some? */
static inline bool tap_cuda_plan_has_products(const struct tap_cuda_plan *p)
{
    return p->first || p->nested;
}
/* Count a launch of that kernel (NULL: not known), for the count of launches that the graph
 * makes. */
void tap_cuda_plan_tally(struct tap_cuda_plan *p, struct tap_gpu_kernel *k);

#pragma GCC visibility pop
#endif
