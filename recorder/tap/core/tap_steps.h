/* tap_steps.h - steps: one forward pass over a batch of rows, as the tap records it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the thread that computes the step. Nothing here allocates, waits or changes errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_STEPS_H
#define TD_RECORDER_TAP_CORE_TAP_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi/td_gptq.h"
#include "recorder/tap/core/tap_ring_slot.h"

#pragma GCC visibility push(hidden)

/* A step starts on this thread. Ops until the next such call belong to it: all of them are
 * recorded, or none. n_spans 0: it is not known whose rows these are. args are borrowed; what makes
 * no sense is ignored. Does nothing while asleep. */
void tap_step_begin(const struct td_step_args *args);
/* The same where only the number of rows, which sampling sees, is known. step: counts up. */
void tap_step_begin_rows(uint64_t step, int64_t rows);
/* This thread uses steps: ops before its first step belong to none and count as partial. The two
 * functions above do this too; this one is cheap, for calls while asleep. */
void tap_step_mark_thread(void);

/* ---- for the core ---------------------------------------------------------------------------- */

/* Write the record of a step into the slot's ring; the slot is entered. False: no room. */
bool tap_step_write(struct tap_ring_slot *s, const struct td_step_args *args, int64_t now);

#pragma GCC visibility pop
#endif
