/* lane_collapse.h - which answers have collapsed beyond what the baseline does for that prompt.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_COLLAPSE_H
#define TD_DIFFER_LANE_COLLAPSE_H

#include "differ/align.h"
#include "differ/verdict.h"
#include "wire/collapse.h"

struct td_collapsed {
    const struct td_prompt_group *group;
    const struct td_exchange *good, *bad; /* good: the counterpart of the baseline; NULL: none */
    struct td_collapse what;
};

struct td_collapses {
    size_t answers;            /* candidate answers looked at */
    struct td_collapsed *found; size_t n;
    size_t excused;            /* hard by themselves, but the baseline does it too */
    size_t no_baseline;        /* collapsed, and no baseline answer to the prompt */
    char excuse[200];          /* of the first one excused */
};

int td_collapse_measure(const struct td_groups *g, struct td_collapses *out, struct td_error *err);
void td_collapses_release(struct td_collapses *c);
void td_collapse_judge(const struct td_collapses *c, struct td_lane *lane);

#endif
