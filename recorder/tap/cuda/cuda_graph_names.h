/* cuda_graph_names.h - the kernels that a server's CUDA graphs launch, by name: those of products
 * whose twins copy them, and all others.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPH_NAMES_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPH_NAMES_H

#include "recorder/tap/gpu/gpu_times.h"

#pragma GCC visibility push(hidden)

/* Note the kernels of all graphs of which a clone is kept (cuda_twins.h). Where there are more nodes
 * than are looked at, nothing is known to be recorded. From the tap's thread, asleep; takes the lock of
 * the plans for microseconds a node. */
void tap_cuda_graph_names_note(struct tap_gpu_times *t);

#pragma GCC visibility pop
#endif
