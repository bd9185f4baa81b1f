/* damage.h - do answers differ by more than any rounding explains?
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two builds that round differently fork where two tokens are almost equally likely, and until then
 * they agree on every logprob to some hundredths of a nat. A build that computes something else
 * parts at clear calls, at once, or becomes unsure of all that it writes. Only places are looked at
 * where both sides saw the same context: the tokens before the fork, and the fork itself. One
 * answer of each side to a prompt is used, for repeats are not independent. */
#ifndef TD_DIFFER_DAMAGE_H
#define TD_DIFFER_DAMAGE_H

#include "differ/tokens.h"

/* A mean with its standard error; NaN where n is too small. */
struct td_mean {
    double mean, error;
    size_t n;
};

/* What one side (the candidate, or noise) does beside the baseline. */
struct td_departure {
    size_t prompts;        /* compared */
    size_t clear;          /* prompts forked at a clear call: a gap over tokens.clear_gap */
    struct td_mean shift;  /* |logprob - logprob| of the baseline's token, over positions of equal
                              context, in nats */
    struct td_mean unsure; /* by how much the mean logprob of its own tokens is lower than that of
                              the baseline's, over prompts, in nats a token */
};

struct td_damage {
    struct td_departure candidate;
    struct td_departure noise; /* of each figure the largest of any noise; its share of clear
                                  forks is clear / prompts */
    double clear_p;            /* p that so many clear forks are noise; 0: no noise has one */
    double shift_limit;        /* the policy's, or four times the noise's if that is larger */
    double unsure_limit;
    bool clear_beyond, shift_beyond, unsure_beyond; /* what no rounding explains */
    struct td_departure live;  /* of the first live round that is damaged itself, beside the
                                  recording; prompts 0: none is */
};

/* Compare the candidate's answers, and each noise, with the baseline's. Pure. */
void td_damage_measure(const struct td_groups *g, const struct td_policy *policy,
                       const struct td_tokens *t, struct td_damage *out);
/* Is one of the three beyond its limit? */
bool td_damage_found(const struct td_damage *d);
/* Append what is beyond its limit, with figures and limits: "8 of 10 prompts fork ...; ...". */
void td_damage_words(const struct td_damage *d, const struct td_policy *policy, struct td_buf *out);

#endif
