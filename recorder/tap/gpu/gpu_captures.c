/* gpu_captures.c - a call that is captured into a graph is told to whoever follows captures.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_captures.h"

#include "recorder/tap/core/tap_spent.h"

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

    int64_t begun;
    bool is;

    if (!f)
        return false;
    begun = tap_spent_begin();
    is = f->begins(mark, stream);
    tap_spent_end(begun);
    return is;
}

void tap_gpu_capture_ends(const struct tap_gpu_capture_mark *mark, const struct tap_gpu_launch *l,
                          const struct tap_gpu_kernel *k, const struct td_gpu_work *w)
{
    const struct tap_gpu_capture_follower *f =
        atomic_load_explicit(&follower, memory_order_acquire);

    int64_t begun;

    if (!f)
        return;
    begun = tap_spent_begin();
    f->ends(mark, l, k, w);
    tap_spent_end(begun);
}

void tap_gpu_capture_leaves_out(const struct tap_gpu_capture_mark *mark)
{
    const struct tap_gpu_capture_follower *f =
        atomic_load_explicit(&follower, memory_order_acquire);

    int64_t begun;

    if (!f)
        return;
    begun = tap_spent_begin();
    f->leaves_out(mark);
    tap_spent_end(begun);
}
