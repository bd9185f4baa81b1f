/* stats.h - the few statistics that verdicts rest on. Checked against scipy in
 * tests/unit/differ/test_stats.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Inputs must not hold NaN unless a line says otherwise. Nothing here is random: equal data give
 * an equal verdict. */
#ifndef TD_DIFFER_STATS_H
#define TD_DIFFER_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/quantile.h"

struct td_interval {
    double est, lo, hi; /* NaN when n is 0; lo -Inf and hi Inf when n values are too few for the
                           level */
    size_t n;
    bool reached;       /* n is large enough for the level */
};

/* Hodges-Lehmann estimate of the centre of x (the median of all pairwise means) with the
 * interval of Wilcoxon's signed-rank test at level 1 - alpha: exact distribution up to n = 60,
 * normal with continuity correction above (Hollander and Wolfe, Nonparametric Statistical
 * Methods, 3.2 and 3.3; R: wilcox.test(conf.int = TRUE)). */
struct td_interval td_stat_hodges_lehmann(const double *x, size_t n, double alpha);
/* How many values that test needs for a two-sided level 1 - alpha: the smallest n with 2^(1 - n)
 * < alpha. */
size_t td_stat_signed_rank_need(double alpha);

/* Clopper and Pearson's upper limit of a share, one-sided at 1 - alpha, for k of n. 1 when k ==
 * n or n is 0. */
double td_stat_share_upper(size_t k, size_t n, double alpha);
/* The lower limit. 0 when k or n is 0. */
double td_stat_share_lower(size_t k, size_t n, double alpha);
/* Fisher's exact test, one-sided: how likely are k1 or more of n1, if k0 of n0 come from the
 * same rate? 1 when n1 or n0 is 0. */
double td_stat_share_larger_p(size_t k1, size_t n1, size_t k0, size_t n0);

/* The exact sign test, one-sided (of paired yes and no: McNemar's, exact): of the pairs that changed,
 * how likely are `more` or more in one direction against `less` in the other, if both are as
 * likely? 1 when more is 0. */
double td_stat_sign_p(size_t more, size_t less);

/* How likely are the k largest of m new and n old values all new ones, if all come from one
 * distribution, whichever it is? C(m, k) / C(m + n, k): the p of "k of the new exceed all of the
 * old". 1 when k is 0. k must be <= m. */
double td_stat_rank_over_p(size_t k, size_t m, size_t n);

/* Student's t with `dof` degrees of freedom (more than 0, not always whole): how likely is a value
 * beyond -|t| or |t|? Two-sided; 1 for 0, 0 for an infinite t. */
double td_stat_t_p(double t, double dof);
/* The t that a share p of values lies beyond, two-sided: from 0 on; infinite for p of 0. */
double td_stat_t_limit(double p, double dof);

/* Holm's procedure: which of n hypotheses are rejected, so that by chance any is with a probability of
 * alpha at most, however they depend on each other? Returns the largest p that is rejected; below 0:
 * none is.
 *   p : [n], sorted upwards; of tests out of all_n, the others of which are not rejected (a larger p) */
double td_stat_holm(const double *p, size_t n, size_t all_n, double alpha);

#endif
