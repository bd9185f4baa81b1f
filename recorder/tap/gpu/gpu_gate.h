/* gpu_gate.h - the launch gate: one launch after the other, each decided upon and recorded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One launch at a time is inside the gate, from before it to after it; so the order of entries in
 * the queue is that of the launches, and all behind the gate works without locks. A thread of the
 * server that finds the gate taken by another one leaves at once, and its launch is counted. For
 * the tap's thread, which holds the gate for some microseconds, it waits: 5 ms at most, should that
 * thread have lost its core. */
#ifndef TD_RECORDER_TAP_GPU_GPU_GATE_H
#define TD_RECORDER_TAP_GPU_GPU_GATE_H

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/gpu/gpu_record_slots.h"

#pragma GCC visibility push(hidden)

/* ---- a thread of the server, inside the tap (gpu_threads.h) ---------------------------------- */
/* Before and after a launch of a kernel that has an adapter. enter decides what becomes of the
 * launch and copies its inputs; leave copies its output. enter returns a token for leave; 0: leave
 * need not be called. */
uint64_t tap_gpu_gate_enter(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k);
void tap_gpu_gate_leave(uint64_t token, const struct tap_gpu_launch *l, bool ok);
/* After a call that wrote W, dequantised, where the last operand of *w says: a library's product with it is an op
 * with the weights of *w. */
void tap_gpu_gate_made_w(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                         const struct td_gpu_work *w);
/* Call before and after a library function that computes C = A W. The previous launch on this
 * stream, or such a call, must have written W at w.
 *   function : the library function's name, a static string
 *   a, c     : addresses of A [m, k] and C [m, n], F16, rows lda and ldc elements apart
 * False: w is not such a W, and the call is not recorded. *token: for leave; 0: leave need not be
 * called. */
bool tap_gpu_gate_enter_library(const char *function, void *stream, uint64_t w, uint64_t a,
                                uint64_t c, int64_t m, int64_t n, int64_t k, int64_t lda,
                                int64_t ldc, uint64_t *token);
void tap_gpu_gate_leave_library(uint64_t token, bool ok);
/* As tap_gpu_gate_enter(), for a call that is read already. */
uint64_t tap_gpu_gate_enter_work(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                                 const struct td_gpu_work *w);
/* Before a graph is launched whose first GEMM is *w: is its step recorded? Not with l->uncopied. The
 * GEMM comes by
 * tap_gpu_gate_enter_work() or pass() afterwards, with l->noted set. *marks: what the step finder looks
 * for since then. */
bool tap_gpu_gate_note_work(const struct tap_gpu_launch *l, const struct td_gpu_work *w,
                            struct tap_gpu_step_marks *marks);
/* All GEMMs of a graph after its launch, whole calls each, unless the flight recorder is on. No call
 * of the driver for each, nor any lock, and little memory that is not in the cache. */
struct tap_gpu_graph {
    void *stream;
    uint64_t stream_number;
    uint64_t n, bytes;                /* GEMMs, and bytes of their operands */
    uint64_t later, second;          /* those behind the noted one; weights of the first */
    /* None of these begins a step, as long as the finder has these marks. */
    bool are_within;
    struct tap_gpu_step_marks marks;
    bool can_copy;                    /* there is a graph that copies operands */
    bool recorded;                    /* what tap_gpu_gate_note_work() said */
    uint64_t number;                  /* of the launch, if it copies; else 0 */
    void *context;
    /* the gate's */
    bool found;                       /* the step finder knows of all of them */
    struct tap_gpu_slots slots;
    enum tap_count why;               /* what becomes of a GEMM that was copied, once it is asked */
    bool asked;
};
/* False: all are counted, and pass and leave must not be called. Else call pass for each, in order,
 * then leave. */
bool tap_gpu_gate_enter_graph(struct tap_gpu_graph *g);
/* What this launch did with one of them. */
struct tap_gpu_passing {
    uint64_t slot;                    /* device address of its copies; 0: there are none */
    bool in_rotation;                 /* it is copied in its turn, which is not now */
    bool noted;                       /* by tap_gpu_gate_note_work() */
};
void tap_gpu_gate_pass(struct tap_gpu_graph *g, struct tap_gpu_product *p,
                       const struct tap_gpu_passing *x);
void tap_gpu_gate_leave_graph(struct tap_gpu_graph *g);
/* A launch without an adapter; NULL: of a graph. */
void tap_gpu_gate_note_other(const struct tap_gpu_launch *l);

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_gpu_gate_open(void);         /* at each arm, while nobody is inside the tap */
/* Hand over what was staged if no launch has come for a while; with `now` set, do not wait. */
void tap_gpu_gate_tick(bool now);
void tap_gpu_gate_dump(void);         /* tap_flight_dump_some(), unless a GEMM is half recorded */
/* Release the gate if a launch entered and will never leave, because launches are not watched any
 * more. */
void tap_gpu_gate_abandon(void);
/* Between two windows of a sample: close the gate, so that launches are not watched. Returns how
 * long to rest, in ns; 0: do not rest, the gate stays open. */
int64_t tap_gpu_gate_rest(void);
/* Open again. False: a thread of the server is still inside; try again later. */
bool tap_gpu_gate_wake(void);
void tap_gpu_gate_close(void);        /* record no more, hand over the rest */
void tap_gpu_gate_forget(void);       /* in the child of a fork */
bool tap_gpu_gate_is_at_work(void);   /* a launch with an adapter came a moment ago */

#pragma GCC visibility pop
#endif
