/* tokens.h - where do two answers to one prompt part (fork), how close a call was it, and how
 * often do answers of unchanged builds fork (noise)?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_TOKENS_H
#define TD_DIFFER_TOKENS_H

#include "differ/align.h"
#include "differ/policy.h"

/* What is compared: token ids, tokens as text, bytes of the text. */
enum td_unit { TD_UNIT_IDS, TD_UNIT_PIECES, TD_UNIT_BYTES };
const char *td_unit_name(enum td_unit u); /* "token", "token", "byte" */

struct td_difference {
    bool equal;
    enum td_unit unit;        /* the finest unit that both answers have in full */
    int32_t position;         /* length of the common beginning, in units */
};
/* Compare two answers. Token ids are compared when they are complete on both sides. */
struct td_difference td_tokens_compare(const struct td_exchange *a, const struct td_exchange *b);

/* One answer that equals none of the baseline's repeats. */
struct td_fork {
    const struct td_prompt_group *group;
    const struct td_exchange *good, *bad; /* good: the baseline's repeat that agrees longest */
    enum td_role role; int round;         /* of bad */
    struct td_difference at;
    /* How close the call was, in nats: the logprob of the good side's token minus that of the
     * bad side's token, both as the good side gave them. Where the good side had ended: the gap
     * between the two best tokens of the bad side. NaN: not recorded. */
    double gap;
    bool outside_top_k;                   /* bad's token is no alternative of good's: gap is a
                                             lower bound */
    double mean_dlogprob;                 /* mean |logprob - logprob| before the fork; NaN: not
                                             recorded */
};
/* Compare x with each answer of refs. True: it equals none of them, and *out is filled.
 *   refs : [n]; refs[skip] is left out (n: none is) */
bool td_tokens_fork(const struct td_exchange *x, const struct td_xref *refs, size_t n, size_t skip,
                    struct td_fork *out);

/* Did the request ask for the likeliest token each time (temperature 0)? Sampled answers part at any
 * gap. False where the request does not say. */
bool td_tokens_greedy(const struct td_exchange *x);

/* Forks where nothing was changed: the baseline against itself, or one honest build against the
 * baseline. */
struct td_noise {
    enum td_role role; int round;
    size_t prompts, forked;   /* prompts with enough answers to compare; of these, with a fork */
    size_t answers, forks;
    size_t gap_prompts;       /* prompts with a fork whose gap is known and inside the
                                 alternatives. Prompts are counted, not forks: repeats of one
                                 prompt are not independent */
    double gap_max;           /* largest such gap */
};

struct td_tokens {
    size_t prompts, prompts_forked;
    size_t answers;           /* of the candidate, compared with at least one of the baseline */
    struct td_fork *forks; size_t n_forks;
    const struct td_exchange **lost; size_t n_lost; /* failed where the baseline answered */
    size_t errors_alike;      /* failed as the baseline's did */
    bool unreached;           /* every exchange of the candidate, warm-ups included, could not
                                 connect */
    size_t attempts;          /* exchanges of the candidate of any outcome, without warm-ups */
    size_t missing;           /* prompts that the baseline answered and the candidate was not
                                 asked */
    size_t unmatched;         /* exchanges of the candidate whose prompt the baseline did not
                                 answer */
    /* The baseline's own repeats, then each live round and each honest build: [n_noise]. */
    struct td_noise *noise; size_t n_noise;
    double gap_noise;         /* largest gap of any noise; NaN: no noise fork with a known gap */
    size_t gap_prompts;       /* forked prompts with a known gap */
    size_t prompts_over;      /* of these, with a larger gap than gap_noise */
    double gap_p;             /* p that so many are chance (td_stat_rank_over_p); 1: no noise */
    double gap_limit;         /* the smaller of the policy's gap_max and its factor times
                                 gap_noise */
    size_t gaps_hopeless;     /* forks over gap_limit, or to a token outside the alternatives:
                                 never noise */
    size_t gaps_unknown;
    double share_p;           /* one-sided p that so many prompts fork by chance, under the noise
                                 that explains them best; 1: none forks; 0: no noise forks */
    double mean_dlogprob;     /* over all answers, up to the fork; NaN: not recorded */
    int32_t repeats_min;      /* fewest baseline answers of a prompt */
};

/* Compare the candidate's answers with the baseline's, and measure the noise. Pure. TD_OK or
 * TD_ENOMEM. */
int td_tokens_measure(const struct td_groups *g, const struct td_policy *policy,
                      struct td_tokens *out, struct td_error *err);
void td_tokens_release(struct td_tokens *t);

#endif
