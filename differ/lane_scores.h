/* lane_scores.h - the lane "scores": does the candidate find the recorded texts as likely as the baseline does?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_SCORES_H
#define TD_DIFFER_LANE_SCORES_H

#include "differ/lane.h"
#include "differ/policy.h"
#include "differ/rescore.h"

/* May this shift be called worse? REGRESSED: certainly over `limit` (by three standard errors) and over the policy's factor of the
 * noise; INCONCLUSIVE: over the limit; else PASS. */
enum td_verdict td_rescore_compare(const struct td_rescore_part *p, double limit, double noise, const struct td_policy *policy);
/* Say what the measurement means (docs/verdicts.md, "Scores"). */
void td_rescore_judge(const struct td_rescore *r, const struct td_policy *policy, struct td_lane *lane);
/* What is printed with four digits: no "-0.0000". */
double td_rescore_shown(double shift);
/* "teacher-forced over 640 tokens of 10 recorded answers: NLL +0.0012 nats a token …" */
void td_rescore_words(const struct td_rescore *r, char *out, size_t n);

#endif
