/* blame.h - which rule separates the bad ops from the good ones ("M <= 50"), and which bad op
 * ran first.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_BLAME_H
#define TD_DIFFER_BLAME_H

#include "differ/judged_ops.h"

#define TD_BLAME_FEATURES 16
#define TD_BLAME_TERMS 2
#define TD_BLAME_SAME 3
#define TD_BLAME_AMONG 8
#define TD_BLAME_MAX_VALUES 128           /* of one feature, that terms are made of: the smallest */
#define TD_BLAME_MAX_TERMS 600
#define TD_BLAME_EVIDENCE 2               /* ops for each term, on either side */

enum td_relation {
    TD_IS, TD_IS_NOT, TD_AT_MOST, TD_MORE_THAN, TD_MULTIPLE_OF, TD_NOT_MULTIPLE_OF, TD_REST_AT_LEAST
};
/* rest: of TD_REST_AT_LEAST, "M % value >= rest" */
struct td_term { int feature; enum td_relation rel; int64_t value, rest; };

/* "All terms hold". The best rule makes the fewest mistakes (bad ops missed plus good ops hit);
 * among equals it has the fewest terms, then the plainest ones. */
struct td_rule {
    struct td_term term[TD_BLAME_TERMS]; int n_terms;  /* 0 terms: every op */
    size_t bad_hit, good_hit;                          /* ops for which the rule holds */
};

/* Ops that are alike in every feature, counted. */
struct td_blame_row { int64_t value[TD_BLAME_FEATURES]; size_t bad, good; };

struct td_blame {
    size_t bad, good;                     /* judged ops */
    size_t unsure;                        /* ops that are neither: all bad ones are biased, and nobody knows
                                             whether these are (bias_unsure.h) */
    size_t unseen;                        /* of these, ops that no rule was tried on, because there
                                             are too many different ones */
    size_t untried;                       /* terms that no rule was made of, because there are too
                                             many: a better rule may be among them */
    /* It holds for 9 of 10 bad ops and spares 9 of 10 good ones, and on either side at least
     * TD_BLAME_EVIDENCE ops for each of its terms. 0 terms: no rule does. */
    struct td_rule rule;
    /* other rules that separate exactly as well, with as many terms: of those that select the same
     * ops by the same quantities only the plainest */
    struct td_rule same[TD_BLAME_SAME]; int n_same;
    char text[200];                       /* the rule: "kernel = gptq_gemm and M <= 50" */
    char same_text[TD_BLAME_SAME][200];
    const struct td_judged_op *first;     /* the bad op that ran first */
    const struct td_judged_op *first_nan; /* the first with NaN or Inf in its output; NULL: none */
    /* The prompt whose row is the worst one of `first`; "" and -1: not known. inferred:
     * concluded, not told by the server. */
    char prompt_id[128]; int32_t repeat, position; bool decode, inferred;
    bool padding;                         /* that row is no prompt's: the graph had more than the batch */
    /* When it is not known whose row is whose: prompts of exchanges that shared the step, and
     * how many exchanges shared it. */
    const char *among[TD_BLAME_AMONG]; int n_among, n_sharing;
};

/* Find the best rule by exhaustive search. Pure. Returns how many terms were not tried, beyond
 * TD_BLAME_MAX_VALUES and TD_BLAME_MAX_TERMS.
 *   rows : [n], values of the first n_features features of blame_terms.h
 *   same : [TD_BLAME_SAME], other rules that are as good; *n_same of them are filled */
size_t td_blame_find(const struct td_blame_row *rows, size_t n, int n_features,
                     struct td_rule *best, struct td_rule *same, int *n_same);
/* Find the rule over the judged ops of a set, and the first bad op. False: no op is bad. */
bool td_blame_ops(const struct td_judged_ops *candidate, struct td_blame *out);
/* Find the prompt whose row the first bad op computed, from the recording's steps and exchanges.
 * Leaves it unknown when they do not tell. */
void td_blame_place(struct td_blame *b, const struct td_step *steps, size_t n_steps,
                    const struct td_exchange *xs, size_t n_xs);

#endif
