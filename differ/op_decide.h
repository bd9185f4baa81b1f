/* op_decide.h - decide for a replayed op whether it is worse than the baseline's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The replayer judged every op against the reference and wrote its errors into the fixture; here
 * they are compared with the baseline's errors. Errors are in units of what correct rounding
 * allows. */
#ifndef TD_DIFFER_OP_DECIDE_H
#define TD_DIFFER_OP_DECIDE_H

#include "differ/judged_ops.h"
#include "differ/policy.h"

/* How often the runs of one kernel gave other bits, over all ops of one kind that both sides ran
 * more than once. A run is odd when its output is not the one that most runs of its op gave. */
struct td_kernel_runs {
    size_t ops, old_varied; /* ops; those of them whose baseline had an odd run */
    int64_t old_runs, old_odd, new_runs, new_odd;
};

/* Ops that one kernel is expected to treat alike: kind, shape, class of M, type of the output. */
struct td_judged_group {
    const char *kind, *shape, *dtype;
    int m_class;
    int64_t n, k;    /* -1: the kind has no such size */
    size_t recorded; /* ops of the baseline's fixture */
    size_t judged;   /* ops that the replayer judged, whatever came out */
    size_t worse, undecided, broken, bit_equal, with_total;
    size_t digests;  /* judged ops whose baseline error is not known, for a digest of another output was recorded */
    size_t baselines;                   /* judged ops whose baseline error is known */
    double old_score, old_rms, old_rel; /* the baseline's worst errors; NaN: not known */
    double old_of[TD_RMS_PARTS];        /* the same as old_rms, for each part */
    double halves_score, halves_of[TD_RMS_PARTS]; /* worst errors of right sums in halves; NaN: there are none */
    double declared_score, declared_of[TD_RMS_PARTS]; /* of those alone that the baseline build declares */
    double recorded_score, recorded_of[TD_RMS_PARTS]; /* worst errors of the recorded outputs; NaN:
                                         not known */
    double new_score, new_rms, new_rel; /* the candidate's worst errors; Inf: NaN, Inf or a crash */
    double limit, limit_rms;            /* an op with a larger score or rms is worse */
    /* Ops without a reference, compared with another output. NaN compares as no departure. */
    size_t compared, compared_equal, departed, not_compared;
    double departs;                          /* their largest relative L2; NaN: not known */
    size_t format_undecided, format_accepted; /* of the next */
    size_t format_changed;                   /* ops whose activations are rounded otherwise than the
                                                baseline's */
    struct td_kernel_runs runs;              /* of all ops of this kind */
    const char *old_rounding, *new_rounding; /* of the first of them */
    double old_r0, new_r0; /* their worst relative L2 to exact arithmetic; NaN: not
                              known */
};

/* The baseline's error of an op: of the baseline build's run beside it, else of the baseline's
 * own replay, else of the recorded output. NULL: not known (only a digest of the output was
 * recorded). */
const struct td_op_error *td_op_baseline(const struct td_judged_op *op);

/* The rms score of the worst column, row or tile: part is TD_RMS_*. */
double td_op_rms(const struct td_op_error *e, int part);

/* How the activations behind that error were rounded. */
const char *td_op_baseline_rounding(const struct td_judged_op *op);
/* Write "activations are not rounded; before: activations are rounded to q8_1" into out. */
void td_op_rounding_change(const char *now, const char *was, char *out, size_t n);
/* Write where an op stands in the model into out: "blk.0.attn_norm RMS_NORM",
 * "model.layers.1.mlp.down_proj gptq_gemm". */
void td_op_place(const struct td_judged_op *op, char *out, size_t n);

/* Does the op differ between runs where the baseline's own runs of it agreed, and do other ops of
 * the baseline's kernel differ, too? Then its three runs agreed by chance. */
bool td_op_varies_as_baseline(const struct td_judged_op *op, const struct td_judged_group *group);

/* The same, where no run of the baseline's kernel ever differed: the candidate's kernel adds in an order of its own. */
bool td_op_varies_newly(const struct td_judged_op *op, const struct td_judged_group *group);

/* Set the result and its reason. */
__attribute__((format(printf, 3, 4))) void
td_op_set_result(struct td_judged_op *op, enum td_op_result r, const char *fmt, ...);
/* Decide one op: fill its result, why and limits. Pure.
 *   group : the op's group, with the baseline's worst errors */
void td_op_decide(struct td_judged_op *op, const struct td_judged_group *group,
                  const struct td_policy *policy);

/* How many times its limit an error is; infinite for NaN, which is never right. */
double td_op_times(double error, double limit);
/* The error of an op that is furthest over its limit. */
struct td_excess {
    const char *of; /* "element", "row", "column", "tile": what is over its limit; "runs": how far
                       they lie apart; NULL: none is, and the op is bad for another reason */
    double old_error, new_error, limit; /* old NaN: not known */
};
void td_op_excess(const struct td_judged_op *op, struct td_excess *out);

#endif
