/* cuda_twin_make.h - build the twin of a graph: calls of the driver, no state.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_TWIN_MAKE_H
#define TD_RECORDER_TAP_CUDA_CUDA_TWIN_MAKE_H

#include "recorder/tap/cuda/cuda_graph_plans.h"

#pragma GCC visibility push(hidden)

/* Call the driver on a thread that may be capturing: what is called is no part of that, and no launch
 * of the server's. False: the driver refused; do not call tap_cuda_step_back(). */
struct tap_cuda_aside { int mode; bool own; };
bool tap_cuda_step_aside(struct tap_cuda_aside *a);
void tap_cuda_step_back(struct tap_cuda_aside *a);

/* Keep a clone of the graph that p was captured in, and name the tails of its products by the
 * clone's nodes. False: the driver cannot clone it (it allocates memory, for one); there is none.
 * Products whose nodes are not found are uncopyable. */
bool tap_cuda_twin_keep(struct tap_cuda_plan *p, void *graph);
/* Give each product a slot in an arena of so many bytes, and a part: those of one part fit into it
 * together. With the lock held, while there is no twin. */
void tap_cuda_twin_share_out(struct tap_cuda_plan *p, uint64_t arena_bytes);
/* How many nodes a twin has at most, of whichever part. */
uint64_t tap_cuda_twin_nodes(const struct tap_cuda_plan *p);
/* Instantiate a twin whose products, those of one part, have copies made to their slots in
 * the arena. With the context current, on the tap's thread. Returns the CUgraphExec;
 * NULL: the driver refused, or of no product there can be a copy. Products that cannot be copied are uncopyable from then on. */
void *tap_cuda_twin_make(struct tap_cuda_plan *p, uint64_t arena, uint32_t part);

#pragma GCC visibility pop
#endif
