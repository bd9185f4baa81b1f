/* gpu_last_w.h - the W that was dequantised last, for a library to multiply with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Some servers write W as floats and have a library multiply with that: two calls, which are one op. The
 * address of W joins them, as long as nothing came between that may have written there. A few launches
 * that are not told of W may come between the calls: a compiled server makes W before it computes A. For
 * the holder of the gate, but for the address, which another thread may take away. */
#ifndef TD_RECORDER_TAP_GPU_GPU_LAST_W_H
#define TD_RECORDER_TAP_GPU_GPU_LAST_W_H

#include <stdatomic.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/gpu/gpu_threads.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_W_BETWEEN 4u          /* launches between a call that makes W and W's product, at most */

/* The last launch, or call, that only dequantised W; zeroed: none. */
struct tap_gpu_last_w {
    _Atomic uint64_t w;               /* address of that W; 0: none */
    bool called;                      /* it was a call: that no product is seen is counted */
    uint64_t others;                  /* launches by then: a later one may have written there */
    /* Of a call: its thread, and that thread's calls by then. Launches may be nobody's to see. */
    const struct tap_gpu_thread *thread;
    uint64_t calls;
    const struct tap_gpu_kernel *kernel;
    struct tap_gpu_launch launch;
    struct td_gpu_work work;
};
/* W lies where the output of *w says. others: launches without an adapter so far. */
void tap_gpu_last_w_keep(struct tap_gpu_last_w *last, const struct tap_gpu_launch *l,
                         const struct tap_gpu_kernel *k, const struct td_gpu_work *w, bool called,
                         uint64_t others);
/* Another GEMM comes: W has had its product, or was multiplied with in a way that is not read. */
void tap_gpu_last_w_forget(struct tap_gpu_last_w *last);
/* This thread launches a kernel without an adapter: may a W that it made have its product behind that? Of W
 * that a launch by itself made (not called) nothing may come between. Any thread, without the gate. */
void tap_gpu_last_w_pass(const struct tap_gpu_launch *l);
/* Nothing else was launched since W was dequantised, nor called by its thread, and the library's call
 * goes where that launch went. */
bool tap_gpu_last_w_is_next(const struct tap_gpu_last_w *last, const void *stream, uint64_t others);

#pragma GCC visibility pop
#endif
