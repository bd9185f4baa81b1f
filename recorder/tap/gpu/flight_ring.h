/* flight_ring.h - the flight recorder (record --flight): inputs and outputs of every product that is not taken anyway pass a ring on the device,
 * and are kept when something goes wrong: then they go the way of ops that were taken.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   flight_ring.c  the ring: what is in it, what leaves it      flight_dump.c  from the ring to the sender
 *   gpu_output_check.c    do outputs look bad?
 *
 * No kernel of ours computes on the device. With each op a few columns of all rows of its output (all of it when it is small) go to the host, where the
 * sender looks at them: a value that is not finite spoils its whole row in every product behind it, so the next one shows it, while the op where it
 * began still lies in the ring. From then on nothing is taken until the tap's thread has sent the ring, oldest first. */
#ifndef TD_RECORDER_TAP_GPU_FLIGHT_RING_H
#define TD_RECORDER_TAP_GPU_FLIGHT_RING_H

#include "recorder/tap/gpu/gpu_parts.h"

#pragma GCC visibility push(hidden)

#define TAP_CUDA_FLIGHT_SMALLEST (64u << 10)

/* ---- the tap's thread ---- */
/* For an arm that asked for a ring of `bytes`, in that context. What is there already is used again. NULL: done; else a sentence. */
const char *tap_cuda_flight_open(void *context, uint64_t bytes);
void tap_cuda_flight_begin(void);     /* a new arm: empty, off until it is opened */
void tap_cuda_flight_close(void);     /* nobody is in the lane: what is still there is counted */
void tap_cuda_flight_forget(void);    /* the memory is gone, or this is the child of a fork */
uint64_t tap_cuda_flight_bytes(void); /* of the ring; 0: off */

/* ---- any thread ---- */
bool tap_cuda_flight_on(void);
bool tap_cuda_flight_keeping(void);
/* Keep what is there. An output's trigger counts once an arm: all that comes after the first bad one is bad. False: off, or had already. */
bool tap_cuda_flight_trigger(enum tap_flight why);
/* The sender: the ring has come, nothing of it was bad, so that trigger was a false one. It may come again. */
void tap_cuda_flight_false_alarm(void);
void tap_cuda_flight_kept(void);      /* the sender: the ring has come */

/* ---- with the lane held ---- */
/* A step begins. counted: it is in the ledger already. */
void tap_cuda_flight_step(uint64_t step, bool counted);
/* Around a launch that is not taken. False: no room for it, or the driver refused; nothing was kept of it, and nothing is counted. */
bool tap_cuda_flight_enter(const struct tap_cuda_launch *l, uint64_t stream, const struct tap_cuda_kernel *k, const struct td_gpu_work *w, const char *product, bool joined);
/* False: it is no part of the ring; it, and what it joined, is counted. */
bool tap_cuda_flight_leave(const struct tap_cuda_launch *l, bool ok);
void tap_cuda_flight_cut(enum tap_count why); /* the last op lacks rows: it leaves, and is counted for that reason */

/* ---- for the keeper ---- */
struct tap_cuda_flown {               /* a launch in the ring */
    struct tap_cuda_entry e;          /* op_at and sample_at: on the device, from the ring's start */
    uint64_t stream, end, step_at;    /* step_at: its step, counted */
};
/* Why it is being kept; number: of this keep, from 1. */
enum tap_flight tap_cuda_flight_why(uint64_t *number, int64_t *t_ns);
/* Launch i of the oldest op; NULL: there is none, or it has fewer. */
struct tap_cuda_flown *tap_cuda_flight_oldest(unsigned i);
uint64_t tap_cuda_flight_address(void); /* of the ring */
/* The oldest op leaves: it went on (SENT), or it is counted for that reason. */
void tap_cuda_flight_drop(enum tap_count why);
/* The step of that launch, if no record of it was sent yet: it is sent now. */
bool tap_cuda_flight_step_is_new(const struct tap_cuda_flown *f, uint64_t *step);

/* ---- flight_dump.c ---- */
/* Send what there is room for, in the server's context, with the lane held. */
void tap_cuda_keep_some(void);
void tap_cuda_keep_begin(void);       /* a new arm */

/* ---- gpu_output_check.c: the sender's ---- */
void tap_cuda_look_begin(void);       /* a new arm */
void tap_cuda_look_check(const struct tap_cuda_entry *e); /* columns of an output */
void tap_cuda_look_call(const struct tap_call *call);     /* an op on its way to the recorder */
void tap_cuda_look_kept(const struct tap_cuda_entry *e);  /* the ring begins to come, or has come */

/* ---- gpu_gate.c: the tap's thread ---- */
void tap_cuda_gate_keep(void);        /* tap_cuda_keep_some(), once no op is in two halves */

#pragma GCC visibility pop
#endif
