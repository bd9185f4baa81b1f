/* numerics.h - which ops are worse than the baseline's, and what was covered.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_NUMERICS_H
#define TD_DIFFER_NUMERICS_H

#include "differ/opset.h"
#include "differ/policy.h"

/* Ops that one kernel is expected to treat alike: kind, shape, class of M, type of the output. */
struct td_op_group {
    const char *kind, *shape, *dtype; int m_class;
    size_t recorded;                  /* in the baseline's fixture */
    size_t judged;                    /* status anything but NONE */
    size_t worse, undecided, broken, bit_equal, with_total;
    size_t baselines;                 /* judged ops whose baseline error is known */
    double old_score, old_of[TD_RMS_PARTS], old_rms, old_rel; /* the baseline's own worst, old_rms that of all parts; NaN: unknown */
    double new_score, new_rms, new_rel; /* the candidate's worst; Inf: NaN, Inf, a crash */
    double limit, limit_rms;          /* what a score and an rms must exceed to be worse */
    size_t compared, compared_equal, departed, not_compared; /* ops without a reference: set beside another output; NaN: nothing departs */
    double departs;                   /* largest relative L2 of one of them; NaN: none is known */
    size_t format_changed;            /* ops whose activations are rounded otherwise than in the baseline */
    const char *old_rounding, *new_rounding; /* of the first of them */
    double old_r0, new_r0;            /* their worst relative L2 distance to exact arithmetic; NaN: not known */
};

struct td_numerics {
    struct td_op_group *group; size_t n; /* ordered by kind, shape, class of M */
    size_t judged, ok, worse, undecided, broken, bit_equal, with_total;
    size_t joined, not_replayed;      /* baseline ops that the candidate does not hold */
    size_t format_changed;
    /* ops without a reference take no part in the figures above, unless they crashed, hung or gave NaN for a number */
    size_t compared, compared_equal, departed, not_compared;
    const struct td_judged_op *not_compared_first;
    const struct td_judged_op *first_departs; /* the first op of any kind, in order of execution, that is not bit-equal under equal input */
    char coverage[400];
};

/* Where the baseline's error of an op comes from: --baseline-build's run, else the baseline's own replay, else the recorded
 * output. NULL: only a digest. */
const struct td_op_error *td_op_baseline(const struct td_judged_op *op);

/* The activation rounding of that output: whether the build declared another format is judged by it. */
const char *td_op_baseline_rounding(const struct td_judged_op *op);
/* "activations are not rounded; before: activations are rounded to q8_1" */
void td_op_rounding_change(const char *now, const char *was, char *out, size_t n);
/* "blk.0.attn_norm RMS_NORM", "model.layers.1.mlp.down_proj gptq_gemm": where an op stands in the model. */
void td_op_place(const struct td_judged_op *op, char *out, size_t n);

/* Decide one op: fills result, why, limit, limit_rms. worst: of its group; NaN score: no baseline known. Pure. */
void td_op_decide(struct td_judged_op *op, const struct td_op_group *group, const struct td_policy *policy);

/* Group, decide and count. Candidate must be joined with base. */
int td_numerics_measure(struct td_op_set *candidate, const struct td_op_set *base, const struct td_policy *policy,
                        struct td_numerics *out, struct td_error *err);
void td_numerics_release(struct td_numerics *n);

#endif
