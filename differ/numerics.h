/* numerics.h - which ops are worse than the baseline's, and what was covered.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_NUMERICS_H
#define TD_DIFFER_NUMERICS_H

#include "differ/opset.h"
#include "differ/policy.h"
#include "differ/verdict.h"

/* Ops that one kernel is expected to treat alike: kind, shape, class of M, type of the output. */
struct td_op_group {
    const char *kind, *shape, *dtype; int m_class;
    size_t recorded;                  /* in the baseline's fixture */
    size_t judged;                    /* status anything but NONE */
    size_t worse, undecided, broken, bit_equal, with_total;
    size_t baselines;                 /* judged ops whose baseline error is known */
    double old_score, old_rms, old_rel; /* the baseline's own worst; NaN: unknown */
    double new_score, new_rms, new_rel; /* the candidate's worst; Inf: NaN, Inf, a crash */
    double limit, limit_rms;          /* what a score and an rms must exceed to be worse */
};

struct td_numerics {
    struct td_op_group *group; size_t n; /* ordered by kind, shape, class of M */
    size_t judged, ok, worse, undecided, broken, bit_equal, with_total;
    size_t joined, not_replayed;      /* baseline ops that the candidate does not hold */
    char coverage[400];
};

/* Where the baseline's error of an op comes from: --baseline-build's run, else the baseline's own replay, else the recorded
 * output. NULL: only a digest. */
const struct td_op_error *td_op_baseline(const struct td_opx *op);

/* Decide one op: fills result, why, limit, limit_rms. worst: of its group; NaN score: no baseline known. Pure. */
void td_op_decide(struct td_opx *op, const struct td_op_group *group, const struct td_policy *policy);

/* Group, decide and count. Candidate must be joined with base. */
int td_numerics_measure(struct td_op_set *candidate, const struct td_op_set *base, const struct td_policy *policy,
                        struct td_numerics *out, struct td_error *err);
void td_numerics_release(struct td_numerics *n);
/* ops_recorded : ops in the baseline's fixture; what it says goes to the lane. */
void td_numerics_judge(const struct td_numerics *n, const struct td_op_set *candidate, size_t ops_recorded, struct td_lane *lane);

#endif
