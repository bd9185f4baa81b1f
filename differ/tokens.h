/* tokens.h - where answers to one prompt part, how close a call it was, and whether noise explains it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_TOKENS_H
#define TD_DIFFER_TOKENS_H

#include "differ/align.h"
#include "differ/policy.h"

enum td_unit { TD_UNIT_IDS, TD_UNIT_PIECES, TD_UNIT_BYTES }; /* token ids, tokens as text, bytes of the text */
const char *td_unit_name(enum td_unit u);                    /* "token", "token", "byte" */

struct td_difference {
    bool equal;
    enum td_unit unit;        /* the finest that both answers have, complete */
    int32_t position;         /* length of the common beginning, in units */
};
/* Compare two answers. Ids need ids_complete on both sides. */
struct td_difference td_tokens_compare(const struct td_exchange *a, const struct td_exchange *b);

/* One answer that equals none of the baseline's repeats. */
struct td_fork {
    const struct td_prompt_group *group;
    const struct td_exchange *good, *bad; /* good: the baseline's repeat that agrees longest */
    enum td_role role; int round;         /* of bad */
    struct td_difference at;
    /* logprob of the good side's token minus that of the other's choice, both as the good side saw them; where the good side
     * had ended, the top-2 gap of the side that went on. NaN: not recorded. */
    double gap;
    bool outside_top_k;                   /* the other choice is not among the alternatives: the gap is at least this */
    double mean_dlogprob;                 /* |logprob - logprob| of equal tokens before the fork, mean; NaN: not recorded */
};
/* Compare x with each of refs ([n], skip: index left out, or n), and fill *out unless it equals one of them. True: forked. */
bool td_tokens_fork(const struct td_exchange *x, const struct td_xref *refs, size_t n, size_t skip, struct td_fork *out);

struct td_noise {             /* forks that are no bug: of the baseline against itself, of one honest build */
    enum td_role role; int round;
    size_t prompts, forked;   /* prompts with enough answers; with at least one fork */
    size_t answers, forks;
    size_t gap_prompts;       /* prompts with a fork whose gap is known, and inside the alternatives: their repeats are not independent */
    double gap_max;
};

struct td_tokens {
    size_t prompts, prompts_forked;
    size_t answers;           /* candidate answers compared with at least one of the baseline */
    struct td_fork *forks; size_t n_forks;
    const struct td_exchange **lost; size_t n_lost;
    size_t errors_alike;      /* errors where the baseline erred too */
    bool unreached;           /* every candidate exchange, warm-ups too, failed to connect */
    size_t attempts;          /* candidate exchanges of any outcome; no warm-ups */
    size_t missing;           /* prompts of the baseline without any candidate exchange */
    size_t unmatched;         /* candidate exchanges without a baseline answer */
    struct td_noise *noise; size_t n_noise; /* [0] the baseline's own repeats, then one per calibrating fixture */
    double gap_noise;         /* largest gap of any noise; NaN: no noise fork with a known gap */
    size_t gap_prompts;       /* forked prompts with a known gap */
    size_t prompts_over;      /* of these, with a larger gap than gap_noise */
    double gap_p;             /* that so many are by chance (td_stat_rank_over_p); 1 without */
    double gap_limit;         /* the policy's gap_max, or its factor times gap_noise if that is less */
    size_t gaps_hopeless;     /* forks over gap_limit, or to a token outside the alternatives: never noise */
    size_t gaps_unknown;
    double share_p;           /* smallest one-sided p that the share of forked prompts is no larger than a noise's; 1 without */
    double mean_dlogprob;     /* over all answers, up to the fork; NaN: not recorded */
    int32_t repeats_min;      /* fewest baseline answers of a prompt */
};

/* Compare everything; pure. */
int td_tokens_measure(const struct td_groups *g, const struct td_policy *policy, struct td_tokens *out, struct td_error *err);
void td_tokens_release(struct td_tokens *t);

#endif
