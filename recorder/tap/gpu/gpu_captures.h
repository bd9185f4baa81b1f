/* gpu_captures.h - a call that is captured into a graph, instead of being computed now: what a front
 * of operators or of a library tells whoever follows captures.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Armed or asleep. Any thread of the server. */
#ifndef TD_RECORDER_TAP_GPU_GPU_CAPTURES_H
#define TD_RECORDER_TAP_GPU_GPU_CAPTURES_H

#include "recorder/tap/gpu/gpu_gemm.h"

#pragma GCC visibility push(hidden)

/* Captures that go on; while there are none, calls are not checked for being captured. Changed only
 * where captures are followed. */
extern _Atomic uint32_t tap_gpu_captures;
static inline bool tap_gpu_captures_any(void)
{
    return !TAP_LIKELY(!atomic_load_explicit(&tap_gpu_captures, memory_order_relaxed));
}

/* How far a capture was: its graph and number, the nodes on which the next call would depend, how many
 * these are, and the first of them. */
struct tap_gpu_capture_mark { const void *graph, *node; size_t n; uint64_t capture; };
struct tap_gpu_capture_follower {
    bool (*begins)(struct tap_gpu_capture_mark *mark, void *stream);
    void (*ends)(const struct tap_gpu_capture_mark *mark, const struct tap_gpu_launch *l,
                 const struct tap_gpu_kernel *k, const struct td_gpu_work *w);
    void (*leaves_out)(const struct tap_gpu_capture_mark *mark);
};
void tap_gpu_captures_follow(const struct tap_gpu_capture_follower *f); /* f lives for ever */

/* Before the call. False: its stream is not being captured, or nobody follows. */
bool tap_gpu_capture_begins(struct tap_gpu_capture_mark *mark, void *stream);
/* After it, if it succeeded: on l->stream the nodes that compute *w were captured. Not to be called
 * where begins said false. */
void tap_gpu_capture_ends(const struct tap_gpu_capture_mark *mark, const struct tap_gpu_launch *l,
                          const struct tap_gpu_kernel *k, const struct td_gpu_work *w);
/* In that capture, which goes on, there is a product that cannot be read: each launch of its graph drops
 * it. */
void tap_gpu_capture_leaves_out(const struct tap_gpu_capture_mark *mark);

#pragma GCC visibility pop
#endif
