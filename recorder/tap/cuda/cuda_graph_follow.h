/* cuda_graph_follow.h - captures and graphs as they come and go: which capture goes on on a stream,
 * and which plan a handle stands for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Told by CUPTI's callbacks (--graphs) or by the tap before libcudart's functions (twins); both name
 * a call by what it does, with its arguments as words. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPH_FOLLOW_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPH_FOLLOW_H

#include "recorder/tap/cuda/cuda_graph_plans.h"

#pragma GCC visibility push(hidden)

enum tap_cuda_graph_call {            /* and its first arguments */
    TAP_CUDA_NO_GRAPH_CALL,
    TAP_CUDA_BEGIN,                   /* stream */
    TAP_CUDA_BEGIN_IN,                /* stream, graph, which gets more nodes */
    TAP_CUDA_END,                     /* stream, CUgraph * */
    TAP_CUDA_INSTANTIATE,             /* CUgraphExec *, graph */
    TAP_CUDA_CLONE,                   /* CUgraph *, graph */
    TAP_CUDA_UPDATE,                  /* exec, graph */
    TAP_CUDA_EXEC_GONE,               /* exec */
    TAP_CUDA_GRAPH_GONE,              /* graph */
    TAP_CUDA_EXEC_CHANGED,            /* exec */
    TAP_CUDA_GRAPH_CHANGED,           /* anything, graph */
    TAP_CUDA_GRAPH_GREW,              /* anything, graph: a node that computes nothing */
    TAP_CUDA_ANY_GRAPH_CHANGED        /* the call names a node, not its graph */
};

/* Before and after such a call, on its thread. They take the lock. */
void tap_cuda_follow_before(enum tap_cuda_graph_call call, void *const *word);
void tap_cuda_follow_after(enum tap_cuda_graph_call call, void *const *word, bool ok);
/* Does any capture go on? One load. */
bool tap_cuda_follow_captures(void);

/* The plans' lock. Held for microseconds, but for a launch that is captured. */
void tap_cuda_follow_lock(void);
void tap_cuda_follow_unlock(void);
/* With the lock held: the plan of the capture that goes on on the stream, NULL: there is none, or
 * too many. *capturing: a capture goes on. */
struct tap_cuda_plan *tap_cuda_follow_plan(void *stream, bool *capturing);
void tap_cuda_follow_forget(void);    /* in the child of a fork */

#pragma GCC visibility pop
#endif
