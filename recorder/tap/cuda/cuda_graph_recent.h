/* cuda_graph_recent.h - which graphs the server has launched lately.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Noted while the tap sleeps, so that an arm begins with twins of the graphs that are in use. A table
 * without a lock: where two graphs share a place, the one that was launched last has it. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPH_RECENT_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPH_RECENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TAP_CUDA_RECENT 4096u         /* so many that two seldom share a place: a step may be a graph
                                       * for each layer, and sizes differ */

#pragma GCC visibility push(hidden)

extern const void *_Atomic tap_cuda_recent[TAP_CUDA_RECENT];

static inline const void *_Atomic *tap_cuda_graph_recent_place(const void *exec)
{
    return &tap_cuda_recent[((uintptr_t)exec >> 4) * 0x9e3779b97f4a7c15u >> 52];
}

/* exec is launched: a multiplication and a load, most often. */
static inline void tap_cuda_graph_recent_note(const void *exec)
{
    const void *_Atomic *place = tap_cuda_graph_recent_place(exec);

    if (atomic_load_explicit(place, memory_order_relaxed) != exec)
        atomic_store_explicit(place, exec, memory_order_relaxed);
}

/* exec is about to be gone, and another graph may get its handle. */
static inline void tap_cuda_graph_recent_forget(const void *exec)
{
    const void *_Atomic *place = tap_cuda_graph_recent_place(exec);

    if (atomic_load_explicit(place, memory_order_relaxed) == exec)
        atomic_store_explicit(place, NULL, memory_order_relaxed);
}

#pragma GCC visibility pop
#endif
