/* numerics.c - decide for each replayed op whether it is worse than the baseline's, and count by
 * groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/numerics.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct td_op_error *td_op_baseline(const struct td_judged_op *op)
{
    if (op->baseline.present && !op->baseline.crash)
        return &op->baseline;
    if (op->origin && op->origin->candidate.present)
        return &op->origin->candidate;
    return op->recorded.present ? &op->recorded : NULL;
}

const char *td_op_baseline_rounding(const struct td_judged_op *op)
{
    const struct td_op_error *e = td_op_baseline(op);

    if (e == &op->baseline)
        return op->baseline_rounding ? op->baseline_rounding : op->act_rounding;
    if (op->origin)
        return op->origin->act_rounding;
    return op->recorded_rounding ? op->recorded_rounding : op->act_rounding;
}

void td_op_place(const struct td_judged_op *op, char *out, size_t n)
{
    bool node = strncmp(op->kind, "ggml_", 5) == 0;
    size_t i;

    snprintf(out, n, "%s %s", op->layer ? op->layer : "?", op->kind + (node ? 5 : 0));
    for (i = op->layer ? strlen(op->layer) : 1; node && i < n && out[i]; i++)
        out[i] = (char)toupper((unsigned char)out[i]); /* as ggml writes the names of its ops */
}

static double rms_of(const struct td_op_error *e, int part)
{
    return part == TD_RMS_COL ? e->col : part == TD_RMS_ROW ? e->row : e->tile;
}

/* The part (column, row, tile) whose rms is furthest over its limit; -1: none is over it. */
static int part_over(const struct td_judged_op *op)
{
    const struct td_op_error *c = &op->candidate;
    int i, worst = -1;

    for (i = 0; i < TD_RMS_PARTS; i++)
        if (rms_of(c, i) > op->limit_of[i] &&
            (worst < 0 || rms_of(c, i) * op->limit_of[worst] > rms_of(c, worst) * op->limit_of[i]))
            worst = i;
    return worst;
}

static double worst_rms(const struct td_op_error *e)
{
    return fmax(e->row, fmax(e->col, e->tile)); /* fmax ignores NaN */
}

static bool finite_error(const struct td_op_error *e)
{
    return e->present && !e->crash && isfinite(e->score);
}

/* ---- one op ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4)))
static void set_result(struct td_judged_op *op, enum td_op_result r, const char *fmt, ...)
{
    va_list ap;

    op->result = r;
    va_start(ap, fmt);
    vsnprintf(op->why, sizeof op->why, fmt, ap);
    va_end(ap);
}

/* Ops without an error that can be compared. Returns true when the op is decided. */
static bool decide_status(struct td_judged_op *op, const struct td_op_error *base)
{
    const char *reason = op->reason            ? op->reason
                         : op->candidate.crash ? op->candidate.crash
                                               : "no reason given";
    bool base_died = op->baseline.crash || (base && base->crash);

    switch (op->status) {
    case TD_OP_OK:
        if (op->candidate.crash)
            break;
        if (op->candidate.present)
            return false;
        set_result(op, TD_RESULT_BROKEN, "judged ok, but without an error measure");
        return true;
    case TD_OP_UNSUPPORTED:
        set_result(op, TD_RESULT_UNDECIDED, "unsupported: %s", reason);
        return true;
    case TD_OP_FAILED:
    case TD_OP_CRASHED:
    case TD_OP_HUNG:
        break;
    case TD_OP_NONE:
    case TD_OP_BROKEN:
        set_result(op, TD_RESULT_BROKEN, "could not be judged: %s", reason);
        return true;
    }
    set_result(op, base_died ? TD_RESULT_UNDECIDED : TD_RESULT_WORSE, "%s: %s%s",
               op->status == TD_OP_OK ? "crashed" : td_op_status_name(op->status), reason,
               base_died ? " (so does the baseline)" : "");
    return true;
}

static bool decide_special_values(struct td_judged_op *op, const struct td_op_error *base)
{
    const struct td_op_error *c = &op->candidate;
    /* m and n are of one matrix of a batch */
    long long total = op->total > 0 ? op->total : op->m > 0 && op->n > 0 ? op->m * op->n : 0;

    if (!isfinite(c->score)) { /* NaN where NaN is right has a finite score (replayer/judge.h) */
        const char *what = c->nan > 0 ? "NaN" : c->inf > 0 ? "Inf" : "a hidden NaN";
        long long count = c->nan > 0 ? c->nan : c->inf;

        if (!base)
            set_result(op, TD_RESULT_UNDECIDED,
                       "%s in %lld of %lld elements; the baseline's output is not known "
                       "(--baseline-build PATH)",
                       what, count, total);
        else if (isfinite(base->score) || c->nan > base->nan || c->inf > base->inf)
            set_result(op, TD_RESULT_WORSE, "%s in %lld of %lld elements, baseline %lld", what,
                       count, total, (long long)(c->nan > 0 ? base->nan : base->inf));
        else
            set_result(op, TD_RESULT_UNDECIDED, "%s in %lld of %lld elements, as in the baseline",
                       what, count, total);
        return true;
    }
    if (c->ref_nonzero > 0 && total > 0 && c->zero == total) {
        bool base_zero = base && base->zero == total;

        set_result(op, base_zero ? TD_RESULT_UNDECIDED : TD_RESULT_WORSE,
                   "all %lld elements are zero%s", total, base_zero ? ", as in the baseline" : "");
        return true;
    }
    return false;
}

static bool decide_stability(struct td_judged_op *op, const struct td_op_error *base)
{
    const struct td_op_error *c = &op->candidate;

    if (c->unstable == 0 || (base && (base->unstable > 0 || base->varies)))
        return false;
    if (base && base->repeats > 1)
        set_result(
            op, TD_RESULT_WORSE,
            "unstable: %lld elements differ between %lld runs; the baseline repeats bit for bit",
            (long long)c->unstable, (long long)c->repeats);
    else
        set_result(op, TD_RESULT_UNDECIDED,
                   "unstable: %lld elements differ between %lld runs; whether the baseline's do is "
                   "not known (--baseline-build PATH)",
                   (long long)c->unstable, (long long)c->repeats);
    return true;
}

static void decide_by_score(struct td_judged_op *op, enum td_op_result r,
                            const struct td_op_error *base)
{
    const struct td_op_error *c = &op->candidate;
    const char *unknown =
        base ? "" : "; the baseline's output is not known (--baseline-build PATH)";
    const int part = part_over(op);

    if (part >= 0)
        op->limit_rms = op->limit_of[part];
    if (!(c->score <= op->limit))
        set_result(op, r, "error %.3g, element limit %.3g%s", c->score, op->limit, unknown);
    else if (part == TD_RMS_COL)
        set_result(op, r, "column %lld: rms error %.3g, rms limit %.3g%s", (long long)c->col_at,
                   c->col, op->limit_rms, unknown);
    else if (part == TD_RMS_ROW)
        set_result(op, r, "row %lld: rms error %.3g, rms limit %.3g%s", (long long)c->row_at,
                   c->row, op->limit_rms, unknown);
    else
        set_result(op, r, "tile at row %lld, column %lld: rms error %.3g, rms limit %.3g%s",
                   (long long)c->tile_row, (long long)c->tile_col, c->tile, op->limit_rms, unknown);
}

/* Without a reference an op is worse only if it crashed, hung, or gave NaN where a number is due
 * (status failed). */
static bool decide_without_reference(struct td_judged_op *op, const struct td_op_error *base)
{
    if (!op->without_reference)
        return false;
    if (op->status == TD_OP_FAILED || op->status == TD_OP_CRASHED || op->status == TD_OP_HUNG)
        return decide_status(op, base);
    if (op->status != TD_OP_OK)
        set_result(op, TD_RESULT_COMPARED, "%s: %s", td_op_status_name(op->status),
                   op->reason ? op->reason : "no reason given");
    else if (op->same)
        set_result(op, TD_RESULT_COMPARED, "bit-equal");
    else if (isnan(op->departs))
        set_result(op, TD_RESULT_COMPARED, "there is no other output to compare with");
    else
        set_result(op, TD_RESULT_COMPARED, "departs by %.3g (relative L2) under equal input",
                   op->departs);
    return true;
}

static void rounding_words(const char *rounding, char *out, size_t n)
{
    static const struct {
        const char *name, *words;
    } known[] = {{"none", "activations are not rounded"},
                 {"uint8-token", "activations are rounded to 8 bits per token (uint8-token)"},
                 {"weight-bf16", "weights are rounded to BF16 (weight-bf16)"},
                 {"weight-f16", "weights are rounded to F16 (weight-f16)"}};
    size_t i;

    for (i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, rounding) == 0)
            break;
    if (i < sizeof known / sizeof known[0])
        snprintf(out, n, "%s", known[i].words);
    else
        snprintf(out, n, "activations are rounded to %.40s", rounding);
}

void td_op_rounding_change(const char *now, const char *was, char *out, size_t n)
{
    char a[80], b[80];

    rounding_words(now, a, sizeof a);
    rounding_words(was, b, sizeof b);
    snprintf(out, n, "%s; before: %s", a, b);
}

/* An op that is right by its own format, but the baseline has another one: undecided, unless the
 * policy accepts the change. */
static bool decide_format(struct td_judged_op *op, const struct td_op_error *base,
                          const struct td_policy *policy)
{
    const char *was = td_op_baseline_rounding(op);
    char change[200];

    op->format_changed = strcmp(was, op->act_rounding) != 0 ||
                         (op->origin && strcmp(op->origin->kind, op->kind) != 0);
    if (!op->format_changed || policy->accept_format_change)
        return false;
    td_op_rounding_change(op->act_rounding, was, change, sizeof change);
    set_result(op, TD_RESULT_UNDECIDED,
               "the format changed: %s; distance to exact arithmetic %.3g, before %.3g", change,
               op->candidate.r0_rel_l2, base ? base->r0_rel_l2 : NAN);
    return true;
}

void td_op_decide(struct td_judged_op *op, const struct td_judged_group *group,
                  const struct td_policy *policy)
{
    const struct td_op_error *base = td_op_baseline(op), *c = &op->candidate;
    double floor = td_policy_floor(policy, op->kind, op->dtype, op->judge_floor);
    double floor_rms = policy->floor_rms * floor / (policy->floor > 0 ? policy->floor : 1);
    bool over;
    int i;

    op->why[0] = '\0';
    op->format_changed = false;
    op->limit = floor;
    op->limit_rms = floor_rms;
    if (group->baselines) /* fmax ignores NaN: a group without a finite baseline keeps the floor */
        op->limit = fmax(floor, policy->factor * group->old_score);
    for (i = 0; i < TD_RMS_PARTS; i++) {
        op->limit_of[i] =
            group->baselines ? fmax(floor_rms, policy->factor * group->old_of[i]) : floor_rms;
        op->limit_rms = fmax(op->limit_rms, op->limit_of[i]);
    }
    if (base)
        op->limit = fmax(op->limit, base->spread);
    if (decide_without_reference(op, base) || decide_status(op, base) ||
        decide_special_values(op, base))
        return;
    over = !(c->score <= op->limit) || part_over(op) >= 0;
    if (over)
        decide_by_score(op, base ? TD_RESULT_WORSE : TD_RESULT_UNDECIDED, base);
    else if (!decide_stability(op, base) && !decide_format(op, base, policy))
        op->result = TD_RESULT_OK;
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
        g->old_of[i] = fmax(g->old_of[i], rms_of(e, i));
    g->old_score = fmax(g->old_score, e->score);
    g->old_rms = fmax(g->old_rms, worst_rms(e));
    g->old_rel = fmax(g->old_rel, e->rel_l2);
}

static void add_recorded(struct td_judged_group *g, const struct td_op_error *e)
{
    if (!finite_error(e))
        return;
    for (int i = 0; i < TD_RMS_PARTS; i++)
        g->recorded_of[i] = fmax(g->recorded_of[i], rms_of(e, i));
    g->recorded_score = fmax(g->recorded_score, e->score);
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
    if (!finite_error(b) || b->score > fmax(floor, policy->factor * g->recorded_score))
        return true;
    for (i = 0; i < TD_RMS_PARTS; i++)
        if (rms_of(b, i) > fmax(floor_rms, policy->factor * g->recorded_of[i]))
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
    if (op->total > 0 && op->status == TD_OP_OK) {
        g->with_total++;
        g->bit_equal += op->equal == op->total;
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
    return op->status == TD_OP_OK && op->total > 0 && op->equal < op->total;
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
        n->compared += g->compared;
        n->compared_equal += g->compared_equal;
        n->departed += g->departed;
        n->format_changed += g->format_changed;
        had = g->judged + g->compared + g->not_compared;
        n->not_replayed += g->recorded > had ? g->recorded - had : 0;
    }
    n->ok = n->judged - n->worse - n->undecided - n->broken;
}

/* Count the ops that failed before their kernel ran, unless a kernel ran in another op. A failure of
 * every op alike, in loading or preparing it, is a fault of the replayer or of the pairing of build
 * and recording until shown otherwise: no kernel computed anything that could be wrong. */
static void count_never_ran(const struct td_judged_ops *set, struct td_numerics *n)
{
    size_t i;

    for (i = 0; i < set->n; i++) {
        const struct td_judged_op *op = &set->op[i];

        if (op->never_ran && !n->never_ran++)
            n->never_ran_first = op;
        if (op->status == TD_OP_OK || (!op->never_ran && (op->status == TD_OP_FAILED ||
                                                          op->status == TD_OP_CRASHED ||
                                                          op->status == TD_OP_HUNG))) {
            n->never_ran = 0;
            n->never_ran_first = NULL;
            return;
        }
    }
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
        }
    for (i = 0; i < candidate->n; i++) {
        struct td_judged_op *op = &candidate->op[i];
        struct td_judged_group *g = group_of_op(n, op);

        n->joined += op->origin != NULL;
        n->damaged += op->damaged;
        if (op->status == TD_OP_NONE)
            continue;
        td_op_decide(op, g, policy);
        if (!op->without_reference && baseline_is_bad(op, g, policy) && !n->baseline_bad++)
            n->baseline_bad_first = op;
        if (n->never_ran && op->never_ran)
            set_result(op, TD_RESULT_BROKEN, "%s before its kernel ran, as all ops did",
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
    memset(n, 0, sizeof *n);
}
