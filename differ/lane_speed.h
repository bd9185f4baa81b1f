/* lane_speed.h - the lane "speed": is the candidate slower than the baseline?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_SPEED_H
#define TD_DIFFER_LANE_SPEED_H

#include "differ/align.h"
#include "differ/lane.h"
#include "differ/judged_ops.h"
#include "differ/policy.h"
#include "differ/speed.h"

/* Collect the rows of ops and of servers, and decide each.
 *   base, now : manifests of the recording and of the first candidate; NULL: not known
 *   block     : [n_blocks] what ran beside the live rounds; copied
 * TD_OK or TD_ENOMEM. */
int td_speed_compare(const struct td_judged_ops *candidate, const struct td_groups *g, const cJSON *base, const cJSON *now,
                     const struct td_speed_block *block, size_t n_blocks, const struct td_policy *policy, struct td_speed *out, struct td_error *err);
/* Note what the rows mean (docs/verdicts.md, "Speed"). */
void td_speed_judge(const struct td_speed *s, const struct td_policy *policy, struct td_lane *lane);

#endif
