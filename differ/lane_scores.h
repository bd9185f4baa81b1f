/* lane_scores.h - the lane "scores": does the candidate find the recorded texts as likely as the
 * baseline does?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_SCORES_H
#define TD_DIFFER_LANE_SCORES_H

#include "differ/lane.h"
#include "differ/policy.h"
#include "differ/rescore.h"

/* Is this shift, in either direction, more than rounding makes? REGRESSED: it is larger than `limit`
 * by three standard errors, and larger than the policy's factor times the noise. INCONCLUSIVE: it is
 * larger than the limit. PASS: it is not. */
enum td_verdict td_rescore_compare(const struct td_rescore_part *p, double limit, double noise,
                                   const struct td_policy *policy);
/* Note what the measurement means (docs/verdicts.md, "Scores"). */
void td_rescore_judge(const struct td_rescore *r, const struct td_policy *policy,
                      struct td_lane *lane);
/* The shift as it is printed with four digits: never "-0.0000". */
double td_rescore_shown(double shift);
/* Write "teacher-forced over 640 tokens of 10 recorded answers: NLL +0.0012 nats a token ..."
 * into out. */
void td_rescore_words(const struct td_rescore *r, char *out, size_t n);

#endif
