/* flight_ring.h - the flight recorder's ring: the inputs and outputs of the last GEMMs, in the
 * device's memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No kernel of ours judges anything on the device. With each GEMM a few columns of all rows of its
 * output (all of it when it is small) go to the host, where the sender looks at them
 * (gpu_output_check.h). A value that is not finite spoils its whole row in every GEMM behind it, so
 * the next one shows it, while the op where it began still lies in the ring. Then the tap's thread
 * dumps the ring, oldest op first (flight_dump.h). */
#ifndef TD_RECORDER_TAP_GPU_FLIGHT_RING_H
#define TD_RECORDER_TAP_GPU_FLIGHT_RING_H

#include "recorder/tap/gpu/gpu_queue.h"

#pragma GCC visibility push(hidden)

#define TAP_FLIGHT_SMALLEST (64u << 10) /* bytes; no smaller ring is made */

struct tap_flight_launch {            /* a launch in the ring */
    /* Its op_at and sample_at are offsets in the flight recorder's ring. */
    struct tap_gpu_entry e;
    uint64_t stream;                  /* number of the stream that copied it */
    uint64_t end;                     /* of its bytes, counted since the arm began */
    uint64_t step_at;                 /* its step, counted since the arm began */
};

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* Allocate the ring in that context, `bytes` or less, and turn the flight recorder on. A ring of an
 * earlier arm is used again. Returns NULL, or the reason why there is none. */
const char *tap_flight_ring_open(void *context, uint64_t bytes);
void tap_flight_ring_clear(void);     /* at each arm: empty, and off until it is opened */
void tap_flight_ring_close(void);     /* with the gate held: off; what is still there is counted */
void tap_flight_ring_forget(void);    /* the memory is gone, or this is the child of a fork */

/* ---- the holder of the gate ------------------------------------------------------------------ */
/* A step begins. counted: it is in the ledger already. */
void tap_flight_ring_step(uint64_t step, bool counted);
/* Before a launch that is not recorded; arguments as of tap_gpu_record_begin(). False: there is no
 * room, or the driver refused: nothing of the launch is in the ring, and nothing is counted. */
bool tap_flight_ring_enter(const struct tap_gpu_launch *l, uint64_t stream,
                           const struct tap_gpu_kernel *k, const struct td_gpu_work *w,
                           const char *library_function, bool joined);
/* After the launch. False: the op was removed from the ring, with the launches that this one
 * joined, and is counted. */
bool tap_flight_ring_leave(const struct tap_gpu_launch *l, bool ok);
/* The last op lacks rows: take it out of the ring, and count it for that reason. */
void tap_flight_ring_cut(enum tap_count why);

/* ---- for the dump, with the gate held -------------------------------------------------------- */
uint64_t tap_flight_ring_address(void); /* on the device */
/* Launch i of the oldest op; NULL: there is none, or the op has fewer. */
struct tap_flight_launch *tap_flight_ring_oldest(unsigned i);
/* Take the oldest op out. TAP_OPS_SENT: it was dumped; else it is counted for that reason. */
void tap_flight_ring_drop(enum tap_count why);
/* Fill in the step of that launch. True: no record of this step was sent before; the caller sends
 * one now. */
bool tap_flight_ring_step_is_new(const struct tap_flight_launch *f, uint64_t *step);

#pragma GCC visibility pop
#endif
