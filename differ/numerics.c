/* numerics.c - group the judged ops, have each decided, and count by groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/numerics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/bias_unsure.h"

static double worst_rms(const struct td_op_error *e)
{
    return fmax(e->row, fmax(e->col, e->tile)); /* fmax ignores NaN */
}

static bool finite_error(const struct td_op_error *e)
{
    return e->present && !e->crash && isfinite(e->score);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int compare_key(const struct td_judged_op *a, const struct td_judged_group *b)
{
    int c = strcmp(a->kind, b->kind);

    if (c == 0)
        c = strcmp(a->shape, b->shape);
    if (c == 0)
        c = a->m_class - b->m_class;
    return c ? c : strcmp(a->dtype, b->dtype);
}

static int by_key(const void *a, const void *b)
{
    const struct td_judged_op *p = *(const struct td_judged_op *const *)a,
                              *q = *(const struct td_judged_op *const *)b;
    struct td_judged_group g = {
        .kind = q->kind, .shape = q->shape, .dtype = q->dtype, .m_class = q->m_class};

    return compare_key(p, &g);
}

static struct td_judged_group *group_of_op(struct td_numerics *n, const struct td_judged_op *op)
{
    size_t lo = 0, hi = n->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = compare_key(op, &n->group[mid]);

        if (c == 0)
            return &n->group[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

static int make_groups(const struct td_judged_ops *a, const struct td_judged_ops *b,
                       struct td_numerics *n, struct td_error *err)
{
    size_t total = a->n + b->n, i;
    const struct td_judged_op **all = malloc((total + 1) * sizeof(*all));

    n->group = calloc(total + 1, sizeof *n->group);
    if (!all || !n->group) {
        free(all);
        return td_fail(err, TD_ENOMEM, "no memory to group %zu ops", total);
    }
    for (i = 0; i < total; i++)
        all[i] = i < a->n ? &a->op[i] : &b->op[i - a->n];
    qsort(all, total, sizeof(*all), by_key);
    for (i = 0; i < total; i++)
        if (n->n == 0 || compare_key(all[i], &n->group[n->n - 1]) != 0)
            n->group[n->n++] = (struct td_judged_group){.kind = all[i]->kind,
                                                        .shape = all[i]->shape,
                                                        .dtype = all[i]->dtype,
                                                        .m_class = all[i]->m_class,
                                                        .n = all[i]->n,
                                                        .k = all[i]->k,
                                                        .old_score = NAN,
                                                        .old_of = {NAN, NAN, NAN},
                                                        .old_rms = NAN,
                                                        .old_rel = NAN,
                                                        .halves_score = NAN,
                                                        .halves_of = {NAN, NAN, NAN},
                                                        .declared_score = NAN,
                                                        .declared_of = {NAN, NAN, NAN},
                                                        .recorded_score = NAN,
                                                        .recorded_of = {NAN, NAN, NAN},
                                                        .new_score = NAN,
                                                        .new_rms = NAN,
                                                        .new_rel = NAN,
                                                        .departs = NAN,
                                                        .old_r0 = NAN,
                                                        .new_r0 = NAN};
    free(all);
    return TD_OK;
}

static void add_baseline(struct td_judged_group *g, const struct td_op_error *e)
{
    if (!e)
        return;
    g->baselines++;
    if (!finite_error(e))
        return;
    for (int i = 0; i < TD_RMS_PARTS; i++)
        g->old_of[i] = fmax(g->old_of[i], td_op_rms(e, i));
    g->old_score = fmax(g->old_score, e->score);
    g->old_rms = fmax(g->old_rms, worst_rms(e));
    g->old_rel = fmax(g->old_rel, e->rel_l2);
}

static void add_recorded(struct td_judged_group *g, const struct td_op_error *e)
{
    if (!finite_error(e))
        return;
    for (int i = 0; i < TD_RMS_PARTS; i++)
        g->recorded_of[i] = fmax(g->recorded_of[i], td_op_rms(e, i));
    g->recorded_score = fmax(g->recorded_score, e->score);
}

static void add_halves(struct td_judged_group *g, const struct td_judged_op *op)
{
    const struct td_op_error *e = &op->halves;

    if (!finite_error(e))
        return;
    for (int i = 0; i < TD_RMS_PARTS; i++) {
        g->halves_of[i] = fmax(g->halves_of[i], td_op_rms(e, i));
        if (op->halves_of_baseline)
            g->declared_of[i] = fmax(g->declared_of[i], td_op_rms(e, i));
    }
    g->halves_score = fmax(g->halves_score, e->score);
    if (op->halves_of_baseline)
        g->declared_score = fmax(g->declared_score, e->score);
}

static void add_runs(struct td_kernel_runs *r, const struct td_judged_op *op)
{
    const struct td_op_error *old = td_op_baseline(op), *now = &op->candidate;

    if (op->status != TD_OP_OK || !old || !old->present || old->varies || old->repeats < 2 ||
        !now->present || now->repeats < 2)
        return;
    r->ops++;
    r->old_varied += old->odd_runs > 0;
    r->old_runs += old->repeats;
    r->old_odd += old->odd_runs;
    r->new_runs += now->repeats;
    r->new_odd += now->odd_runs;
}

/* Count the runs of each kernel over all of its groups. */
static void count_runs(const struct td_judged_ops *candidate, struct td_numerics *n)
{
    struct td_kernel_runs runs;
    size_t i, first, end;

    for (first = 0; first < n->n; first = end) {
        memset(&runs, 0, sizeof runs);
        for (i = 0; i < candidate->n; i++)
            if (!strcmp(candidate->op[i].kind, n->group[first].kind))
                add_runs(&runs, &candidate->op[i]);
        for (end = first; end < n->n && !strcmp(n->group[end].kind, n->group[first].kind); end++)
            n->group[end].runs = runs;
    }
}

/* Is the baseline build's output of this op worse than the recorded ones, as an op of the candidate
 * would be called bad? Only where both round activations alike. */
static bool baseline_is_bad(const struct td_judged_op *op, const struct td_judged_group *g,
                            const struct td_policy *policy)
{
    const char *recorded = op->recorded_rounding ? op->recorded_rounding : op->act_rounding,
               *baseline = op->baseline_rounding ? op->baseline_rounding : op->act_rounding;
    const struct td_op_error *b = &op->baseline;
    const double floor = td_policy_floor(policy, op->kind, op->dtype, op->judge_floor),
                 floor_rms = policy->floor_rms * floor / (policy->floor > 0 ? policy->floor : 1);
    int i;

    if (!b->present || !finite_error(&op->recorded) || strcmp(recorded, baseline) != 0)
        return false;
    if (!finite_error(b) || b->score > fmax(floor, policy->factor * fmax(g->recorded_score, g->declared_score)))
        return true;
    for (i = 0; i < TD_RMS_PARTS; i++)
        if (td_op_rms(b, i) > fmax(floor_rms, policy->factor * fmax(g->recorded_of[i], g->declared_of[i])))
            return true;
    return false;
}

static void add_compared(struct td_judged_group *g, const struct td_judged_op *op,
                         struct td_numerics *n)
{
    if (op->status != TD_OP_OK || (!op->same && isnan(op->departs))) {
        n->not_compared++;
        g->not_compared++;
        if (!n->not_compared_first)
            n->not_compared_first = op;
        return;
    }
    g->compared++;
    g->compared_equal += op->same;
    g->departed += !op->same;
    if (!op->same)
        g->departs = fmax(g->departs, op->departs);
}

static void add_format(struct td_judged_group *g, const struct td_judged_op *op)
{
    const struct td_op_error *base = td_op_baseline(op);

    g->format_undecided += op->format == TD_FORMAT_UNDECIDED;
    g->format_accepted += op->format == TD_FORMAT_ACCEPTED;
    if (!g->format_changed++) {
        g->old_rounding = td_op_baseline_rounding(op);
        g->new_rounding = op->act_rounding;
    }
    g->new_r0 = fmax(g->new_r0, op->candidate.r0_rel_l2);
    if (base)
        g->old_r0 = fmax(g->old_r0, base->r0_rel_l2);
}

static void add_result(struct td_judged_group *g, const struct td_judged_op *op)
{
    const struct td_op_error *c = &op->candidate;

    g->judged++;
    if (op->format_changed)
        add_format(g, op);
    g->worse += op->result == TD_RESULT_WORSE;
    g->undecided += op->result == TD_RESULT_UNDECIDED;
    g->broken += op->result == TD_RESULT_BROKEN;
    if ((op->total > 0 || op->digest_differs) && op->status == TD_OP_OK) {
        g->with_total++;
        g->bit_equal += op->total > 0 && op->equal == op->total;
        g->digests += op->digest_differs && !td_op_baseline(op);
    }
    g->limit = fmax(g->limit, op->limit);
    g->limit_rms = fmax(g->limit_rms, op->limit_rms);
    if (finite_error(c)) {
        g->new_score = fmax(g->new_score, c->score);
        g->new_rms = fmax(g->new_rms, worst_rms(c));
        g->new_rel = fmax(g->new_rel, c->rel_l2);
    } else if (op->result == TD_RESULT_WORSE) {
        g->new_score = g->new_rms = g->new_rel = INFINITY;
    }
}

static void describe_group_coverage(struct td_numerics *n)
{
    size_t i, judged = 0, groups = 0, len = 0, ops = 0, recorded = 0;

    for (i = 0; i < n->n; i++) {
        const struct td_judged_group *g = &n->group[i];

        /* the others have a sentence of their own */
        if (g->compared + g->not_compared == 0 || g->judged) {
            groups++;
            judged += g->judged > g->broken;
            ops += g->judged - g->broken;
            recorded += g->recorded;
        }
        if (i + 1 < n->n && strcmp(g->kind, n->group[i + 1].kind) == 0)
            continue;
        if (groups && len < sizeof n->coverage)
            len += (size_t)snprintf(n->coverage + len, sizeof n->coverage - len,
                                    "%s%s %zu of %zu shapes x M classes (%zu of %zu ops)",
                                    len ? ", " : "", g->kind, judged, groups, ops,
                                    recorded > ops ? recorded : ops);
        judged = groups = ops = recorded = 0;
    }
}

static bool departs(const struct td_judged_op *op)
{
    if (op->result == TD_RESULT_WORSE)
        return true;
    if (op->result == TD_RESULT_COMPARED)
        return op->status == TD_OP_OK && !op->same && !isnan(op->departs);
    return op->status == TD_OP_OK && (op->digest_differs || (op->total > 0 && op->equal < op->total));
}

static void add_up_groups(struct td_numerics *n)
{
    size_t i, had;

    for (i = 0; i < n->n; i++) {
        const struct td_judged_group *g = &n->group[i];

        n->judged += g->judged;
        n->worse += g->worse;
        n->undecided += g->undecided;
        n->broken += g->broken;
        n->bit_equal += g->bit_equal;
        n->with_total += g->with_total;
        n->digests += g->digests;
        n->compared += g->compared;
        n->compared_equal += g->compared_equal;
        n->departed += g->departed;
        n->format_changed += g->format_changed;
        n->format_undecided += g->format_undecided;
        n->format_accepted += g->format_accepted;
        had = g->judged + g->compared + g->not_compared;
        n->not_replayed += g->recorded > had ? g->recorded - had : 0;
    }
    n->ok = n->judged - n->worse - n->undecided - n->broken;
}

/* Count the ops that failed before their kernel ran, unless a kernel ran in another op. A failure
 * of every op alike, in loading or preparing it, is a fault of the replayer or of the pairing of
 * build and recording until shown otherwise: no kernel computed anything that could be wrong. */
static void count_never_ran(const struct td_judged_ops *set, struct td_numerics *n)
{
    size_t i;

    for (i = 0; i < set->n; i++) {
        const struct td_judged_op *op = &set->op[i];

        if (op->never_ran && !n->never_ran++)
            n->never_ran_first = op;
        if (op->status == TD_OP_OK ||
            (!op->never_ran && (op->status == TD_OP_FAILED || op->status == TD_OP_CRASHED ||
                                op->status == TD_OP_HUNG))) {
            n->never_ran = 0;
            n->never_ran_first = NULL;
            return;
        }
    }
}

/* Do right sums in halves allow more than the baseline's errors do? */
static bool halves_widen(const struct td_judged_group *g)
{
    bool wider = !(g->halves_score <= g->old_score);

    for (int i = 0; i < TD_RMS_PARTS; i++)
        wider = wider || !(g->halves_of[i] <= g->old_of[i]);
    return wider;
}

static void count_halves(const struct td_judged_op *op, const struct td_judged_group *g, struct td_numerics *n)
{
    for (int i = 0; i < 2; i++)
        if (!n->halves_refused[i])
            n->halves_refused[i] = op->halves_refused[i];
    if (!finite_error(&op->halves))
        return;
    n->halves++;
    n->halves_score = fmax(n->halves_score, op->halves.score);
    if (!n->halves_block && !op->halves_of_baseline && halves_widen(g))
        n->halves_block = op->halves_block;
}

int td_numerics_measure(struct td_judged_ops *candidate, const struct td_judged_ops *base,
                        const struct td_policy *policy, struct td_numerics *n, struct td_error *err)
{
    size_t i;
    int rc;

    memset(n, 0, sizeof *n);
    rc = make_groups(candidate, base, n, err);
    if (rc)
        return rc;
    count_never_ran(candidate, n);
    for (i = 0; i < base->n; i++)
        group_of_op(n, &base->op[i])->recorded++;
    for (i = 0; i < candidate->n; i++)
        if (candidate->op[i].status != TD_OP_NONE) {
            struct td_judged_group *g = group_of_op(n, &candidate->op[i]);

            add_baseline(g, td_op_baseline(&candidate->op[i]));
            add_recorded(g, &candidate->op[i].recorded);
            add_halves(g, &candidate->op[i]);
        }
    count_runs(candidate, n);
    for (i = 0; i < candidate->n; i++)
        if (candidate->op[i].status != TD_OP_NONE)
            td_op_decide(&candidate->op[i], group_of_op(n, &candidate->op[i]), policy);
    rc = td_bias_measure(candidate, policy, &n->bias, err);
    if (!rc)
        rc = td_bias_mark_unsure(candidate, &n->bias, err);
    if (!rc)
        rc = td_repeats_measure(candidate, policy->slices_alpha, &n->repeats, err);
    if (rc)
        return rc;
    for (i = 0; i < candidate->n; i++) {
        struct td_judged_op *op = &candidate->op[i];
        struct td_judged_group *g = group_of_op(n, op);

        n->joined += op->origin != NULL;
        n->damaged += op->damaged;
        if (op->status == TD_OP_NONE)
            continue;
        if (td_op_varies_as_baseline(op, g) && !n->vary_as_baseline++)
            n->vary_as_baseline_first = g;
        count_halves(op, g, n);
        if (td_op_varies_newly(op, g) && op->result == TD_RESULT_OK) {
            n->vary_newly++;
            n->vary_newly_spread = fmax(n->vary_newly_spread, op->candidate.spread);
        }
        n->ran_once += policy->must_repeat && op->result == TD_RESULT_OK && !op->without_reference && op->candidate.repeats <= 1;
        if (!op->without_reference && baseline_is_bad(op, g, policy) && !n->baseline_bad++)
            n->baseline_bad_first = op;
        if (n->never_ran && op->never_ran)
            td_op_set_result(op, TD_RESULT_BROKEN, "%s before its kernel ran, as all ops did",
                             td_op_status_name(op->status));
        if (op->result == TD_RESULT_COMPARED)
            add_compared(g, op, n);
        else
            add_result(g, op);
        if (departs(op) && (!n->first_departs || td_judged_op_runs_before(op, n->first_departs)))
            n->first_departs = op;
    }
    add_up_groups(n);
    describe_group_coverage(n);
    return TD_OK;
}

void td_numerics_release(struct td_numerics *n)
{
    free(n->group);
    td_bias_release(&n->bias);
    td_repeats_release(&n->repeats);
    memset(n, 0, sizeof *n);
}
