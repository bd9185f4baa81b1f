/* same_tokens.h - answers of the same tokens: are their text and their end the same, too?
 * SPDX-License-Identifier: Apache-2.0
 *
 * The kernels choose tokens; what a client reads is made of them by the detokenizer, by the parsers
 * of thoughts and tools, and by the rule that ends an answer. One server makes one text of the same
 * tokens, so a difference needs no statistics. What sound servers do differently is left out: a
 * blank at the beginning, a glyph that the last token cut, and what stands behind a stop string. */
#ifndef TD_DIFFER_SAME_TOKENS_H
#define TD_DIFFER_SAME_TOKENS_H

#include "differ/align.h"
#include "differ/policy.h"

enum td_unlike {
    TD_ALIKE,
    TD_OTHER_TEXT,     /* the detokenizer, or the template */
    TD_OTHER_PARTS,    /* thoughts or calls of tools on one side only: a parser */
    TD_OTHER_END,      /* finish_reason */
    TD_N_UNLIKE
};
/* "text", "parts", "end" */
const char *td_unlike_name(enum td_unlike u);

/* Compare what was made of the tokens of two answers, which are equal. */
enum td_unlike td_same_tokens_compare(const struct td_exchange *a, const struct td_exchange *b);

/* An answer whose tokens equal those of an answer of the baseline, and which is unlike each of
 * those that its tokens equal. */
struct td_unlike_answer {
    const struct td_prompt_group *group;
    const struct td_exchange *good, *bad;
    int round;                 /* of bad */
    enum td_unlike what;
};

struct td_same_tokens {
    struct td_unlike_answer *list; size_t n; /* of the candidate */
    size_t answers;            /* of the candidate, with the tokens of one of the baseline */
    size_t of[TD_N_UNLIKE];    /* how many of the list */
    bool beyond[TD_N_UNLIKE];  /* there are more than any noise explains */
};

/* Compare the candidate's answers, and those of each noise, with the baseline's. Answers whose words
 * are masked are left out. Pure. TD_OK or TD_ENOMEM. */
int td_same_tokens_measure(const struct td_groups *g, const struct td_policy *policy,
                           struct td_same_tokens *out, struct td_error *err);
void td_same_tokens_release(struct td_same_tokens *s);
/* Is something beyond what noise explains? */
bool td_same_tokens_found(const struct td_same_tokens *s);
/* What is beyond: "30 of 30 answers have the same tokens and another text (the detokenizer or the
 * template); first: short-1". */
void td_same_tokens_words(const struct td_same_tokens *s, struct td_buf *out);

#endif
