/* blame.h - the pattern that separates bad ops from good ones, and the first bad op in order of execution.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_BLAME_H
#define TD_DIFFER_BLAME_H

#include "differ/opset.h"

#define TD_BLAME_FEATURES 16
#define TD_BLAME_TERMS 2
#define TD_BLAME_SAME 3
#define TD_BLAME_AMONG 8

enum td_relation { TD_IS, TD_IS_NOT, TD_AT_MOST, TD_MORE_THAN, TD_MULTIPLE_OF, TD_NOT_MULTIPLE_OF };
struct td_term { int feature; enum td_relation rel; int64_t value; };

/* "All terms hold". Its cost, in this order: bad ops missed plus good ops hit, number of terms, how plain the terms are. */
struct td_rule {
    struct td_term term[TD_BLAME_TERMS]; int n_terms;  /* 0 terms: every op */
    size_t bad_hit, good_hit;
};

/* Rows that are alike in every feature, counted. */
struct td_blame_row { int64_t value[TD_BLAME_FEATURES]; size_t bad, good; };

struct td_blame {
    size_t bad, good;
    size_t unseen;                        /* of them, ops that no rule was tried on: there are too many different ones */
    struct td_rule rule;
    struct td_rule same[TD_BLAME_SAME]; int n_same; /* other rules that separate exactly as well, with as many terms */
    char text[200];                       /* "gptq_gemm, M <= 50" ("every op of gptq_gemm" when nothing was good) */
    char same_text[TD_BLAME_SAME][200];
    const struct td_judged_op *first;           /* the first bad op in order of execution */
    const struct td_judged_op *first_nan;       /* the first one whose output holds NaN or Inf: where "!!!!" begins; NULL: none */
    /* whose row is the worst of the first bad op; "" and -1 where the steps do not tell. inferred: not the server said so */
    char prompt_id[128]; int32_t repeat, position; bool decode, inferred;
    /* where it is not known which of the op's rows are whose: some of those that shared them, of the recording's exchanges */
    const char *among[TD_BLAME_AMONG]; int n_among, n_sharing;
};

/* Find the rule. rows : [n]; same : [TD_BLAME_SAME]; feature names say what is plain: see FEATURES in blame.c. Pure. */
void td_blame_find(const struct td_blame_row *rows, size_t n, int n_features, struct td_rule *best, struct td_rule *same, int *n_same);
/* Rule over the judged ops of a set, and the first bad one. False: no op is bad. */
bool td_blame_ops(const struct td_op_set *candidate, struct td_blame *out);
/* Fill in whose row it is from the recording's steps. Best effort. */
void td_blame_place(struct td_blame *b, const struct td_step *steps, size_t n_steps, const struct td_exchange *xs, size_t n_xs);

#endif
