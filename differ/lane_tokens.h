/* lane_tokens.h - the lane "tokens": do the candidate's answers equal the baseline's, and if
 * not, can noise explain it?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_TOKENS_H
#define TD_DIFFER_LANE_TOKENS_H

#include "differ/damage.h"
#include "differ/lane.h"
#include "differ/same_tokens.h"
#include "differ/tokens.h"

/* What the lane "tokens" measures. It may be read as a struct td_tokens, with which it begins. */
struct td_tokens_found {
    struct td_tokens tokens;
    struct td_damage damage;
    struct td_same_tokens same;
};

/* What the replayed ops showed, for answers that differ. */
struct td_ops_view {
    bool judged;                         /* the lane "ops" was asked for and has evidence */
    size_t ops, worse, bit_equal, undecided;
    size_t compared, compared_equal;     /* ops without a reference */
    const char *first_departs;           /* "Qcur-0 ROPE": the first op that departs under equal
                                            input; NULL: not known */
    const char *coverage;                /* which ops were judged, in words; "": nothing to add */
};

/* Note what the measurement means (docs/verdicts.md, "Tokens"). */
void td_tokens_judge(const struct td_tokens_found *found, const struct td_policy *policy,
                     const struct td_ops_view *ops, struct td_lane *lane);

#endif
