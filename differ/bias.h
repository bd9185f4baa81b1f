/* bias.h - are the errors of a kernel biased, or coarser than the baseline's, over all of its ops?
 * SPDX-License-Identifier: Apache-2.0
 *
 * td_op_decide() looks at the worst element of one op; here the ops of a group are looked at together,
 * by the sums over slices that the replayer kept (slice_tests.h, docs/verdicts.md "Bias"). A finding is
 * an effect of the size that the policy names, with evidence: all tests of a run hold together (Holm). */
#ifndef TD_DIFFER_BIAS_H
#define TD_DIFFER_BIAS_H

#include "differ/op_decide.h"
#include "differ/slice_tests.h"

/* Fewer ops with different inputs say nothing. */
#define TD_BIAS_LEAST_OPS 6

struct td_bias_finding {
    const char *kind, *shape, *dtype, *layer; /* layer NULL: all layers of the group */
    int m_class;                 /* -1: several classes, none of which has ops enough */
    struct td_slice_test test;   /* the slice that says it most clearly */
    double lo, hi;               /* interval of test.est; together with all others at the level */
    double limit;                /* the size of bias, or rms error, that it might have had */
    size_t ops, layers, slices;  /* ops of the group; layers among them; slices of it that say the same */
    size_t left_out;             /* further ops of the group that stand far out: without them it shows */
    size_t marked;               /* ops that are bad by this: td_judged_op.bias */
    size_t part;                 /* of td_bias_measure() */
};

struct td_bias {
    struct td_bias_finding *found; size_t n; /* the clearest first */
    size_t groups, few;          /* groups that were tested; groups of too few ops, which are not judged */
    size_t ops, without;         /* ops that were tested; ops whose slices are not known on both sides */
    size_t digests;              /* ops that are left out since a digest of their output was recorded */
    size_t tests;
    size_t better;               /* groups in which the candidate has less of a bias, or finer errors */
    const char *better_kind, *better_shape; /* of the first of them */
    double better_old, better_new;          /* its size of bias, or rms error */
    int thinned;                 /* only one op in 2^thinned was looked at: there are very many */
};

/* Test all ops that were decided. Ops of a finding that are ok so far become worse, and say why.
 * They point to the finding, which lives as long as *out. TD_OK, TD_ENOMEM. */
int td_bias_measure(struct td_judged_ops *candidate, const struct td_policy *policy,
                    struct td_bias *out, struct td_error *err);
void td_bias_release(struct td_bias *b);

/* "columns = 0 mod 4: +0.1 % [+0.094, +0.11]" */
void td_bias_words(const struct td_bias_finding *f, char *out, size_t n);
/* "gptq_gemm 2048x2048 b4 g128, M 1, 24 ops in 4 layers, without 2 ops far off" */
void td_bias_place(const struct td_bias_finding *f, char *out, size_t n);

#endif
