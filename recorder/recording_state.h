/* recording_state.h - what a recording plans, and at its end whether all of it was recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORDING_STATE_H
#define TD_RECORDER_RECORDING_STATE_H

#include "recorder/recording.h"

#define TD_RECORDING_CAUSES 8

struct td_recording_state {
    const char *name;          /* of the manifest's "state" */
    char causes[TD_RECORDING_CAUSES][240];
    int n;
};

/* Write the plan, as far as it is known before the first request. */
void td_recording_plan_begin(struct td_recording *r);
/* So many whole repeats are begun by now, where a duration says how many there are (struct td_record_load). */
void td_recording_plan_repeat(struct td_recording *r, int64_t repeats);
/* Write how many requests of the tapped phase are planned: none without a tap. */
void td_recording_plan_tapped(struct td_recording *r);
/* Write how many requests score answers: two for each text, once the texts are known. */
void td_recording_plan_scores(struct td_recording *r);
/* Take those out of the plan that the server refused: what it does not offer is not missing. */
void td_recording_plan_without_refused(struct td_recording *r);

/* Compare what was recorded with the plan, and write it into the manifest.
 *   rc : how the phases ended */
void td_recording_state_end(struct td_recording *r, int rc, struct td_recording_state *out);

#endif
