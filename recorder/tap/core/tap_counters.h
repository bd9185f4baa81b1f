/* tap_counters.h - the counters that reach the recorder: what was recorded, what was not, and why.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread with a ring slot counts in its ring (tap_ring_slot_count()), without locked
 * instructions. Every other thread counts here, in the page that all share. Any thread; lock-free,
 * allocates nothing, keeps errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_COUNTERS_H
#define TD_RECORDER_TAP_CORE_TAP_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* What happens to a step, and to the ops of it. */
enum tap_decision {
    TAP_UNDECIDED,                    /* the thread has begun no step in this arm */
    TAP_RECORD,
    TAP_SKIP_SAMPLING,                /* outside the sample */
    TAP_SKIP_BUDGET,
    TAP_SKIP_RING,                    /* no room in the ring */
    TAP_SKIP_FLIGHT,                  /* the flight recorder is being dumped */
    TAP_SKIP_GRAPH                    /* it runs from a CUDA graph that copies nothing */
};
/* The counter of ops, and of steps, that were not recorded for this reason. An op that is not
 * recorded although its step is counts as partial. */
enum tap_count tap_count_of_ops(enum tap_decision decision);
enum tap_count tap_count_of_steps(enum tap_decision decision);

/* Count n things of `bytes` of inputs and outputs in all (0: not known) in the shared page. Nothing
 * when not armed. */
void tap_count(enum tap_count what, uint64_t n, uint64_t bytes);
/* The same for ops (steps false) or steps that were not recorded. n 0: more bytes of an op that was
 * counted. */
void tap_count_skipped(enum tap_decision why, bool steps, uint64_t n, uint64_t bytes);
/* The same for a caller that knows the arm at hand; nothing if that arm is over. */
void tap_count_in_arm(uint32_t generation, enum tap_count what, uint64_t n, uint64_t bytes);

/* Threads that are writing the shared page now: while there is one, the page must stay mapped. */
extern _Atomic uint32_t tap_counting_threads;

#pragma GCC visibility pop
#endif
