/* tap_sampler.h - which steps are recorded: a sample of windows, the first steps of each size, and
 * the budget.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The unit of sampling is the step, so that a recorded step has all its ops. A thread without steps
 * has a step of one op. One sampler belongs to one stream of steps and is used by one thread at a
 * time: that of a ring slot by the slot's owner, that of a GPU front under the front's lock. Needs
 * an armed tap. Nothing here allocates, waits or changes errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_SAMPLER_H
#define TD_RECORDER_TAP_CORE_TAP_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_counters.h"

#pragma GCC visibility push(hidden)

#define TAP_CLASSES 128u /* classes of sizes: rows of a step, apart for decode and others */

struct tap_sampler {                  /* zeroed at each arm */
    /* steps of each class that were recorded, up to those that sampling must not skip */
    uint8_t classes[TAP_CLASSES];
    uint64_t steps;                   /* seen in this arm */
    /* when the last step of a size came that sampling must not skip; 0: no step yet */
    int64_t last_new_size_ns;
    bool is_new_size;                 /* the step at hand is of such a size */
};

/* ---- a stream of steps of which only the rows are known -------------------------------------- */

/* A step of `rows` rows begins: what happens to it. *may_send_weights: it may send
 * weights; set unless the step is outside the sample. */
enum tap_decision tap_sampler_decide(struct tap_sampler *p, int64_t rows, bool *may_send_weights);
/* Steps from now on that are outside of the sample whatever their size, which a front need not even
 * watch; 0: the next one may be recorded. Also 0 for tap_new_size_ns after a new size came: more of
 * them may follow. */
uint64_t tap_sampler_steps_to_window(const struct tap_sampler *p, int64_t now);
/* So many steps went by that nobody watched. */
void tap_sampler_skip_steps(struct tap_sampler *p, uint64_t steps);
/* Recording the step at hand held a thread of the server for ns. A new size is free: it may not
 * come again. */
void tap_sampler_charge_time(const struct tap_sampler *p, int64_t ns);
extern int64_t tap_new_size_ns;       /* tests shorten it */

/* ---- in parts, for a step whose record may fail ---------------------------------------------- */

unsigned tap_sampler_class(int64_t rows, bool decode);
/* As tap_sampler_decide(), but a recorded step counts only by tap_sampler_note_recorded(). */
enum tap_decision tap_sampler_decide_class(struct tap_sampler *p, unsigned class, int64_t now,
                                           bool *may_send_weights);
void tap_sampler_note_recorded(struct tap_sampler *p, unsigned class);

#pragma GCC visibility pop
#endif
