/* cuda_twin_stock.h - the twins that there are: which are wanted, made by the tap's thread, and gone
 * again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A twin is wanted once its graph is launched while the tap is armed, or was launched shortly before.
 * Where the bound of cuda_twin_memory.h is reached, the twin goes whose graph has not been launched
 * for longest, if that is some seconds ago. If there is none, the graph has no twin for now: its
 * launches are counted (TAP_GRAPHS_NO_ROOM), and it is tried again a second later. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_TWIN_STOCK_H
#define TD_RECORDER_TAP_CUDA_CUDA_TWIN_STOCK_H

#include "recorder/tap/cuda/cuda_graph_plans.h"

#pragma GCC visibility push(hidden)

/* ---- any thread, with the plans' lock held ---------------------------------------------------- */
/* This graph is about to be launched. True: its twin is there, and was not refused a moment ago. */
bool tap_cuda_twin_want(struct tap_cuda_plan *p);
/* The twin was launched in a step that is recorded. Where a twin copies a part of the graph's products,
 * that of the next part comes after some launches. */
void tap_cuda_twin_launched(struct tap_cuda_plan *p);
/* Destroy the twin; the driver waits until it has run. Within tap_cuda_step_aside(), while
 * p->launching is 0. */
void tap_cuda_twin_destroy(struct tap_cuda_plan *p);
/* A plan is about to be free. */
void tap_cuda_twin_forget_plan(const struct tap_cuda_plan *p);

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* An arm begins, and no call is recorded yet: make twins of the graphs that were launched lately, for
 * a second at most. */
void tap_cuda_twin_stock_ahead(void);
void tap_cuda_twin_stock_make(void);  /* the twins that are wanted, some at a time */
bool tap_cuda_twin_stock_wants(void); /* there is one to make */
bool tap_cuda_twin_stock_lacks(void); /* and its graph has none meanwhile; any thread */
void tap_cuda_twin_stock_clear(void); /* while nobody is inside the tap: no twin is left, nor memory */
void tap_cuda_twin_stock_forget(void); /* in the child of a fork */

extern int64_t tap_cuda_twin_idle_ns; /* a twin that was not launched for so long may go; tests
                                       * shorten it */

#pragma GCC visibility pop
#endif
