/* tap_call.h - record one call of a kernel: its inputs before it, its output after it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Use, on one thread:
 *     bool recorded = tap_armed() && tap_call_begin(&open, &call);
 *     ok = run the real function;
 *     if (recorded)
 *         tap_call_end(&open, ok, tap_now() - open.t0_ns);
 * All functions are for the thread that makes the call. Nothing here waits, allocates or changes
 * errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_CALL_H
#define TD_RECORDER_TAP_CORE_TAP_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_call_desc.h"

#pragma GCC visibility push(hidden)

struct tap_ring_slot;

/* A call that is being recorded: from tap_call_begin to tap_call_end. */
struct tap_open_call {
    struct tap_operand out;        /* a copy. Where the call itself allocates its result, data,
                                    * row_bytes and pitch are to be set before the end */
    int64_t t0_ns;                 /* tap_now() at the end of tap_call_begin */
    struct tap_ring_slot *slot;    /* this and the rest are the core's */
    struct tap_op *rec;            /* in the ring, not yet visible */
    struct tap_tensor *out_tensor; /* in *rec */
    uint64_t size;                 /* of the record */
    uint64_t out_at, out_bytes;    /* the output's bytes in the record */
    uint64_t bytes;                /* of inputs and output */
};

/* Decide whether the call is recorded; if so, send its weights if need be, and copy its inputs.
 *   open   : filled when true; must live until tap_call_end
 *   call   : borrowed for this function only; NULL, or one that makes no sense, is counted as
 *            failed
 * False: the call is not recorded, and counted; there is nothing to end. True: this thread must
 * call tap_call_end, whatever happens, from this function or another one: the shared memory stays
 * mapped until then. A call inside a recorded call is not recorded. */
bool tap_call_begin(struct tap_open_call *open, const struct tap_call *call);
/* ok: the output is there, copy it and publish the record. Not ok, or open->out makes no sense:
 * counted as failed, nothing is sent. duration_ns -1: not measured. */
void tap_call_end(struct tap_open_call *open, bool ok, int64_t duration_ns);

/* Would a call of the step at hand be recorded? Cheap; lets a front skip the description. A call
 * that is then not begun is counted by tap_call_skip. On a thread without steps: true while
 * armed. */
bool tap_call_is_wanted(void);
/* Count n calls, of `bytes` of inputs and outputs in all (0: not known), that were not begun
 * because tap_call_is_wanted() said no. */
void tap_call_skip(uint64_t n, uint64_t bytes);
/* Count a call of a wanted step whose inputs or output lie where they cannot be read (another
 * device's memory). */
void tap_call_skip_unreadable(void);

/* Bytes of the call's record in the ring; 0: the call makes no sense. */
uint64_t tap_call_record_bytes(const struct tap_call *call);

#pragma GCC visibility pop
#endif
