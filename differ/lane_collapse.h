/* lane_collapse.h - the lane "collapse": which answers have collapsed ("!!!!", loops) that the
 * baseline gave soundly?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_COLLAPSE_H
#define TD_DIFFER_LANE_COLLAPSE_H

#include "differ/align.h"
#include "differ/lane.h"
#include "wire/collapse.h"

struct td_collapsed {
    const struct td_prompt_group *group;
    const struct td_exchange *good, *bad; /* good: the baseline's counterpart; NULL: none */
    struct td_collapse what;
};

struct td_collapses {
    size_t attempts;           /* candidate exchanges of any outcome; no warm-ups */
    size_t answers;            /* candidate answers looked at */
    struct td_collapsed *found; size_t n;
    size_t excused;            /* would have collapsed, but the baseline does the same */
    size_t no_baseline;        /* collapsed, and the baseline has no answer to the prompt */
    char excuse[200];          /* what the baseline does, for the first one excused */
};

/* Apply the rules of wire/collapse.h to the candidate's answers. An answer is excused when the
 * baseline's answers to that prompt do the same. TD_OK or TD_ENOMEM. */
int td_collapse_measure(const struct td_groups *g, struct td_collapses *out, struct td_error *err);
void td_collapses_release(struct td_collapses *c);
/* Note what the measurement means (docs/verdicts.md, "Collapse"). */
void td_collapse_judge(const struct td_collapses *c, struct td_lane *lane);

#endif
