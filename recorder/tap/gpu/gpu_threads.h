/* gpu_threads.h - which threads of the server may be inside the tap, and what this thread's
 * launches are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Between tap_gpu_come_in() and tap_gpu_go_out() a thread of the server works inside the tap. The
 * tap's thread arms, allocates and closes only while nobody is inside. */
#ifndef TD_RECORDER_TAP_GPU_GPU_THREADS_H
#define TD_RECORDER_TAP_GPU_GPU_THREADS_H

#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_inner;
struct td_gpu_work;

/* ---- any thread of the server ---------------------------------------------------------------- */
/* Come in. False: launches are not watched now; do nothing, and do not go out. */
bool tap_gpu_come_in(void);
void tap_gpu_go_out(void);

/* What the launches of this thread are. Both flags are the thread's own; each function that sets one
 * returns the value before it. */
struct tap_gpu_thread {
    /* The tap itself calls the driver: no callback looks at such a call. */
    bool own_calls;
    /* Launches are internal to a GEMM of a library, which is recorded as one call. */
    bool in_library_call;
    /* Not NULL: the call that computes *inner_of is recorded as one, and its launches are noted. */
    struct tap_gpu_inner *inner;
    const struct td_gpu_work *inner_of;
    /* Operators and products of libraries that this thread called, as far as the tap stands before them. */
    uint64_t calls;
    /* A W that a call of this thread made and that waits for its product (gpu_last_w.h): where it lies, and
     * how many launches came since that are not told of it. 0 bytes: none waits, or another one came. */
    struct { uint64_t address, bytes; unsigned passed; } made_w;
};
/* Initial-exec: the tap is loaded at the program's start, so the first use allocates nothing. */
extern __thread __attribute__((tls_model("initial-exec"))) struct tap_gpu_thread tap_gpu_thread;
static inline bool tap_gpu_set_own_calls(bool on)
{
    bool before = tap_gpu_thread.own_calls;

    tap_gpu_thread.own_calls = on;
    return before;
}
static inline void tap_gpu_note_call(void)
{
    tap_gpu_thread.calls++;
}
/* Mark this thread's launches as internal to a library GEMM: they are counted by name, but not
 * recorded. */
static inline bool tap_gpu_set_in_library_call(bool on)
{
    bool before = tap_gpu_thread.in_library_call;

    tap_gpu_thread.in_library_call = on;
    return before;
}

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_gpu_watch_launches(bool on); /* from now on threads may, or may not, come in */
bool tap_gpu_is_watching(void);
bool tap_gpu_is_anybody_inside(void);
/* Wait until nobody is inside, for 200 ms at most: a thread may stand in the driver. */
void tap_gpu_wait_until_outside(void);
void tap_gpu_threads_forget(void);    /* in the child of a fork */

#pragma GCC visibility pop
#endif
