/* gpu_captures.c - a call that is captured into a graph is told to whoever follows captures.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_captures.h"

_Atomic uint32_t tap_gpu_captures;
static const struct tap_gpu_capture_follower *_Atomic follower;

void tap_gpu_captures_follow(const struct tap_gpu_capture_follower *f)
{
    atomic_store_explicit(&follower, f, memory_order_release);
}

bool tap_gpu_capture_begins(struct tap_gpu_capture_mark *mark, void *stream)
{
    const struct tap_gpu_capture_follower *f =
        atomic_load_explicit(&follower, memory_order_acquire);

    return f && f->begins(mark, stream);
}

void tap_gpu_capture_ends(const struct tap_gpu_capture_mark *mark, const struct tap_gpu_launch *l,
                          const struct tap_gpu_kernel *k, const struct td_gpu_work *w)
{
    const struct tap_gpu_capture_follower *f =
        atomic_load_explicit(&follower, memory_order_acquire);

    if (f)
        f->ends(mark, l, k, w);
}
