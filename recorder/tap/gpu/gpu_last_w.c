/* gpu_last_w.c - the W that was dequantised last, for a library to multiply with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_last_w.h"

#include "recorder/tap/gpu/gpu_launch_reach.h"

void tap_gpu_last_w_keep(struct tap_gpu_last_w *last, const struct tap_gpu_launch *l,
                         const struct tap_gpu_kernel *k, const struct td_gpu_work *w, bool called,
                         uint64_t others)
{
    last->w = tap_gpu_gemm_output(w)->address;
    last->called = called;
    last->others = others;
    if (called) {
        tap_gpu_thread.made_w.address = last->w;
        tap_gpu_thread.made_w.bytes = tap_gpu_gemm_output(w)->bytes;
        tap_gpu_thread.made_w.passed = 0;
    }
    last->thread = &tap_gpu_thread;
    last->calls = tap_gpu_thread.calls;
    last->kernel = k;
    last->launch = *l;
    last->work = *w;
}

void tap_gpu_last_w_forget(struct tap_gpu_last_w *last)
{
    if (last->w && last->called)
        tap_count(TAP_OPS_UNREADABLE, 1, 0);
    last->w = 0;
}

void tap_gpu_last_w_pass(const struct tap_gpu_launch *l)
{
    struct tap_gpu_thread *t = &tap_gpu_thread;

    if (!t->made_w.bytes)
        return;
    if (t->made_w.passed < TAP_GPU_W_BETWEEN && tap_gpu_launch_avoids(l, t->made_w.address, t->made_w.bytes))
        t->made_w.passed++;
    else
        t->made_w.bytes = 0;          /* others differ from now on */
}

bool tap_gpu_last_w_is_next(const struct tap_gpu_last_w *last, const void *stream, uint64_t others)
{
    if (last->launch.stream != stream)
        return false;
    if (!last->called)
        return last->others == others;
    return last->thread == &tap_gpu_thread && last->calls == tap_gpu_thread.calls &&
           last->others + tap_gpu_thread.made_w.passed == others;
}
