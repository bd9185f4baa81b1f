/* repeats.h - where results of the baseline itself differ between runs: do the candidate's more often?
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the baseline's kernel never varies, td_op_decide() judges. Where it does, as it adds in any order,
 * another kernel that adds in another order is right as well, and how many elements differ between runs
 * follows from how many parts are added. So what is found here is told, and makes no op bad. */
#ifndef TD_DIFFER_REPEATS_H
#define TD_DIFFER_REPEATS_H

#include "differ/judged_ops.h"

/* Nothing is told of a smaller share of elements. */
#define TD_REPEATS_LEAST 0.01

/* Shares are of an op's elements that differ between its runs, in the mean over ops with different inputs. */
struct td_repeats_group {
    const char *kind, *shape, *dtype;
    int m_class;                 /* -1: several classes, none of which has ops enough */
    size_t ops, blocks;          /* blocks: ops, those with equal inputs counted once */
    int64_t runs;                /* of each op */
    double old_share, new_share;
    double lo, hi;               /* of the candidate's share less the baseline's; together with all others at the level */
    double p;                    /* two-sided, of Student's t, paired by op: for no difference */
};

struct td_repeats {
    struct td_repeats_group *group; size_t n;
    size_t less;                 /* the first ones: there the candidate's differ more often, most clearly first */
};

/* Compare the groups of ops (bias_groups.h) that both sides ran equally often, of kernels whose baseline
 * varies. Holm's procedure over all groups, at alpha. TD_OK; TD_ENOMEM. */
int td_repeats_measure(struct td_judged_ops *candidate, double alpha, struct td_repeats *out, struct td_error *err);
void td_repeats_release(struct td_repeats *r);

/* "gptq_gemm 640x256 b4 g128, M=1: 62 % of elements differ between 3 runs, before 4.1 % [+55, +61]" */
void td_repeats_words(const struct td_repeats_group *g, char *out, size_t n);

#endif
