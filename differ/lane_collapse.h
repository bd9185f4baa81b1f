/* lane_collapse.h - the lane "collapse": which answers have collapsed ("!!!!", loops) that the
 * baseline gave soundly?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_COLLAPSE_H
#define TD_DIFFER_LANE_COLLAPSE_H

#include "differ/align.h"
#include "differ/lane.h"
#include "differ/policy.h"
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
    size_t broken_off;         /* say that they came to no end, and so does the recording at the prompt */
    char broken_off_why[200];  /* of the first one */
    size_t no_baseline;        /* collapsed, and the baseline has no answer to the prompt */
    char excuse[200];          /* what the baseline does, for the first one excused */
    /* Prompts whose answers are filled by loops or hardly hold any text (td_collapse.filled). Of the
     * candidate: most answers to the prompt; of the baseline: any. */
    size_t prompts;            /* answered by both sides */
    size_t filled_new, filled_old, filled_both; /* by the candidate alone, the baseline alone */
    double filled_p;           /* p that so many more do by chance (td_stat_sign_p) */
    bool filled_more;          /* filled_p is below the policy's level: `found` has those answers */
    /* The baseline, judged on itself: one that is broken excuses nothing. */
    size_t base_answers, base_hard;   /* of the recording; of these, collapsed by a hard limit */
    size_t live_answers, live_hard;   /* of the live baseline; ... beyond what the recording does */
    size_t live_filled, live_sound;   /* prompts that the live baseline alone fills; that the
                                         recording alone fills */
    bool live_filled_more;            /* so many more are no chance */
    char base_why[200], live_why[200]; /* of the first that is hard */
};

/* Apply the rules of wire/collapse.h to the candidate's answers. An answer is excused when the
 * baseline's answers to that prompt do the same; of a live baseline only those which do not collapse
 * beyond the recording themselves. Answers that say that they came to no end (td_collapse_check_end) are
 * excused by none; where the recording says so too, it is no baseline. Then test whether more prompts have filled answers
 * than the baseline's do. TD_OK or TD_ENOMEM. */
int td_collapse_measure(const struct td_groups *g, const struct td_policy *policy,
                        struct td_collapses *out, struct td_error *err);
void td_collapses_release(struct td_collapses *c);
/* Note what the measurement means (docs/verdicts.md, "Collapse"). */
void td_collapse_judge(const struct td_collapses *c, struct td_lane *lane);

#endif
