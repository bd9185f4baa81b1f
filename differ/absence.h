/* absence.h - count what a comparison lacks against what was planned, on every side, for every
 * lane.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A lane judges what is there; it cannot see what is not. So everything that can be absent is
 * counted here, in one table (absence.def), and a lane passes only where planned and seen agree. */
#ifndef TD_DIFFER_ABSENCE_H
#define TD_DIFFER_ABSENCE_H

#include "differ/absent.h"
#include "differ/comparison.h"

/* Is the evidence of this lane planned on the baseline's side and on the candidate's? Then the lane
 * is asked for even if none came. Before the lanes are asked for; after they have measured. */
bool td_absence_is_planned(const struct td_comparison *c, enum td_lane_id lane);

/* Count all of absence.def for the lanes that were asked for. TD_OK or TD_ENOMEM; out is then empty
 * or as far as it came. */
int td_absences_measure(const struct td_comparison *c, struct td_absences *out,
                        struct td_error *err);
/* Add a note to the lane for each thing that it lacks. */
void td_absences_judge(const struct td_absences *a, struct td_lane *lane);
/* Write them as the report's member "absent". */
void td_absences_write(const struct td_absences *a, struct td_jw *w);
void td_absences_release(struct td_absences *a);

#endif
