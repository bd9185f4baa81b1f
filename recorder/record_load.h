/* record_load.h - how many timed requests a recording sends, and when: --rate, --requests, --duration.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORD_LOAD_H
#define TD_RECORDER_RECORD_LOAD_H

#include "recorder/record_options.h"

#define TD_RECORD_MOST_REQUESTS 1000000

struct td_record_load {
    int64_t requests;         /* to be timed; with `until_time`: of one repeat, and there may be more */
    int64_t repeats;          /* of the suite; the last one need not be whole */
    bool until_time;          /* repeats begin until the duration is over; how many is not known before */
};

/* Check that the options go together, and read --arrival. TD_EINVAL. */
int td_record_load_check(struct td_record_options *o, struct td_error *err);
/* What the options ask for, of a suite of so many prompts, more than 0. TD_EINVAL: too many requests, or none. */
int td_record_load_plan(const struct td_record_options *o, size_t prompts, struct td_record_load *out, struct td_error *err);
/* Say it in words behind "send     N prompts": ", each 5 times", " in turn, 50 requests a second (poisson)". Returns out. */
const char *td_record_load_words(const struct td_record_options *o, const struct td_record_load *l, char *out, size_t n);

#endif
