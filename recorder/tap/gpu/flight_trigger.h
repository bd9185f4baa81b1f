/* flight_trigger.h - is the flight recorder on, and is its ring being dumped?
 * SPDX-License-Identifier: Apache-2.0
 *
 * The flight recorder (record --flight) sends every GEMM that is not recorded anyway through a ring
 * on the device. A trigger (an output that looks bad, a request of the recorder) has the ring
 * dumped: sent to the recorder, as recorded ops are. From the trigger to the end of the dump
 * nothing else is recorded. This file holds the trigger alone; flight_ring.h holds the ring. */
#ifndef TD_RECORDER_TAP_GPU_FLIGHT_TRIGGER_H
#define TD_RECORDER_TAP_GPU_FLIGHT_TRIGGER_H

#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

/* ---- any thread ------------------------------------------------------------------------------ */
bool tap_flight_is_on(void);           /* this arm has a ring */
bool tap_flight_is_dumping(void);      /* from the trigger until the sender has sent the ring */
/* Have the ring dumped. An output triggers once an arm only, because all that comes after the first
 * bad output is bad too. False: off, dumping already, or an output triggered before. */
bool tap_flight_trigger(enum tap_dump_reason why);
uint64_t tap_flight_ring_bytes(void); /* 0: off */

/* ---- the sender ------------------------------------------------------------------------------ */
/* The dumped ring held nothing bad: an output may trigger again. */
void tap_flight_false_alarm(void);
void tap_flight_dumped(void);         /* all of the ring was sent */

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_flight_set_on(uint64_t ring_bytes); /* 0: off, and no longer dumping */
/* At each arm, and in the child of a fork: off, no trigger, no dumps. */
void tap_flight_clear(void);
/* Why the ring is being dumped; *number: of this dump, from 1; *t_ns: when it was triggered. */
enum tap_dump_reason tap_flight_dump_reason(uint64_t *number, int64_t *t_ns);

#pragma GCC visibility pop
#endif
