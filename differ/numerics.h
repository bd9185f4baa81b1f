/* numerics.h - group the judged ops, have each decided, and count by groups.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_NUMERICS_H
#define TD_DIFFER_NUMERICS_H

#include "differ/bias.h"
#include "differ/repeats.h"

struct td_numerics {
    struct td_judged_group *group;
    size_t n; /* ordered by kind, shape, class of M */
    size_t judged, ok, worse, undecided, broken, bit_equal, with_total;
    size_t digests;      /* judged ops whose baseline error is not known, for a digest of another output was recorded */
    size_t joined;       /* ops of the candidate that were found in the baseline */
    size_t not_replayed; /* ops of the baseline that the candidate does not hold */
    size_t damaged;      /* of the broken ones: recorded bytes are damaged */
    size_t never_ran;    /* ops that failed before their kernel ran, if no kernel of the
                            candidate ran at all; else 0. They are broken. */
    const struct td_judged_op *never_ran_first;
    size_t baseline_bad; /* ops that the baseline build computes worse than what was
                            recorded: limits taken from it say nothing */
    const struct td_judged_op *baseline_bad_first;
    size_t vary_as_baseline; /* ops that td_op_varies_as_baseline(); the group of the first */
    const struct td_judged_group *vary_as_baseline_first;
    size_t vary_newly;       /* ops that td_op_varies_newly() and are not bad by that; how far apart their runs
                                are at the worst, in roundings */
    double vary_newly_spread;
    size_t ran_once;         /* ops that are right and ran once, though the policy says that they must repeat */
    size_t halves; double halves_score; /* ops beside which right sums in halves stand; the worst error of these */
    int64_t halves_block;               /* of the first op whose limits the candidate's declaration widened; 0: none */
    int64_t halves_refused[2];          /* the first block that baseline and candidate declare and that is not taken */
    size_t format_changed, format_undecided, format_accepted; /* the last two: of the first */
    /* Ops without a reference are not in the figures above, unless they crashed, hung, or gave
     * NaN where a number is due. */
    size_t compared, compared_equal, departed, not_compared;
    const struct td_judged_op *not_compared_first;
    /* The first op of any kind, in order of execution, that is not bit-equal although its input
     * is. */
    const struct td_judged_op *first_departs;
    struct td_bias bias;   /* of all ops of a kernel together */
    struct td_repeats repeats;
    char coverage[400]; /* which shapes and classes of M were judged, in words */
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

/* Decide one op: fill its result, why and limits. Pure.
 *   group : the op's group, with the baseline's worst errors */
void td_op_decide(struct td_judged_op *op, const struct td_judged_group *group,
                  const struct td_policy *policy);

/* Group the ops, decide each and count. The candidate must be joined with the baseline. TD_OK,
 * TD_ENOMEM. */
int td_numerics_measure(struct td_judged_ops *candidate, const struct td_judged_ops *base,
                        const struct td_policy *policy, struct td_numerics *out,
                        struct td_error *err);
void td_numerics_release(struct td_numerics *n);

#endif
