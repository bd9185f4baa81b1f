/* cuda_twins.h - twins of a server's CUDA graphs: the same nodes, and copies of what its products read
 * and wrote.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is added to the server's own graphs. While a server captures, each call of an operator or
 * of a library that multiplies is noted, with the nodes behind which its result is complete. When it
 * instantiates the graph, a clone is kept, since torch destroys its own. While armed, the tap's
 * thread makes a twin of each graph that is launched: from a clone of the clone, with one node behind
 * each product that copies A and C, before anything that came after the product in the capture. A
 * step that is recorded is launched from the twin, in its original's place and on its stream; every
 * other step from the original. So twin and original never run beside each other, and may share
 * their memory.
 *
 * A twin is gone when its original is, and at the end of an arm. A graph that is changed by hand
 * after its capture has none. Captures are followed by standing before libcudart's functions
 * (cudart_hooks.c); a program that calls the driver's own is not seen. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_TWINS_H
#define TD_RECORDER_TAP_CUDA_CUDA_TWINS_H

#include "recorder/tap/cuda/cuda_graph_follow.h"

#pragma GCC visibility push(hidden)

/* ---- the process's start, and the tap's thread ----------------------------------------------- */
/* Once, when the driver is there and before anything is captured. NULL: captures are followed from
 * now on; else why not. */
const char *tap_cuda_twins_open(void);
void tap_cuda_twins_arm(void);        /* an arm begins: make those of graphs that were launched lately */
void tap_cuda_twins_tick(void);       /* while armed: make the twins that are wanted */
bool tap_cuda_twins_have_plans(void); /* a product was captured once */
bool tap_cuda_twins_wanted(void);     /* a tick would make one */
void tap_cuda_twins_disarm(void);     /* while nobody is inside the tap: no twin is left */
void tap_cuda_twins_forget(void);     /* in the child of a fork */

/* ---- the server's threads -------------------------------------------------------------------- */
bool tap_cuda_twins_on(void);
/* After the server has instantiated a graph, and that was followed. */
void tap_cuda_twins_instantiated(const void *exec, void *graph, unsigned long long flags);
/* Before exec takes the nodes of a graph, which need never have been instantiated. False: the graph
 * has a twin, and it is none of exec, which was instantiated in another way. */
bool tap_cuda_twins_update(const void *exec, void *graph);
/* Launch that graph, or its twin, by `by->launch`; returns what it returns. */
typedef int tap_cuda_launch_fn(void *exec, void *stream);
struct tap_cuda_launcher {
    tap_cuda_launch_fn *launch;
    /* The thread's last error, for the server to ask; take: there is none afterwards. */
    int (*last_error)(const void *caller, bool take);
    const void *caller;
};
int tap_cuda_twins_launch(void *exec, void *stream, const struct tap_cuda_launcher *by);

#pragma GCC visibility pop
#endif
