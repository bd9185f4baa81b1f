/* cuda_twin_make.h - build the twin of a graph: calls of the driver, no state.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_TWIN_MAKE_H
#define TD_RECORDER_TAP_CUDA_CUDA_TWIN_MAKE_H

#include "recorder/tap/cuda/cuda_graph_plans.h"

#pragma GCC visibility push(hidden)

/* Keep a clone of the graph that p was captured in, and name the tails of its products by the
 * clone's nodes. False: the driver cannot clone it (it allocates memory, for one); there is none.
 * Products whose nodes are not found are uncopyable. */
bool tap_cuda_twin_keep(struct tap_cuda_plan *p, void *graph);
/* Instantiate a twin whose products have copies made to their slots, as far as these lie in
 * [arena, arena + bytes). With the context current, on the tap's thread. Returns the CUgraphExec;
 * NULL: the driver refused. Products that cannot be copied are uncopyable from then on. */
void *tap_cuda_twin_make(struct tap_cuda_plan *p, uint64_t arena, uint64_t bytes);

#pragma GCC visibility pop
#endif
