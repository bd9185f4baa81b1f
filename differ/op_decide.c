/* op_decide.c - decide for a replayed op whether it is worse than the baseline's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/op_decide.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number_words.h"
#include "common/replay_args.h"
#include "differ/stats.h"

#define RUNS_SHARE 0.625 /* of the floor, 4 in a policy that says nothing else */

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

double td_op_rms(const struct td_op_error *e, int part)
{
    return part == TD_RMS_COL ? e->col : part == TD_RMS_ROW ? e->row : e->tile;
}

/* The part (column, row, tile) whose rms is furthest over its limit; -1: none is over it. */
static int part_over(const struct td_judged_op *op)
{
    const struct td_op_error *c = &op->candidate;
    int i, worst = -1;

    for (i = 0; i < TD_RMS_PARTS; i++)
        if (td_op_rms(c, i) > op->limit_of[i] &&
            (worst < 0 ||
             td_op_rms(c, i) * op->limit_of[worst] > td_op_rms(c, worst) * op->limit_of[i]))
            worst = i;
    return worst;
}

/* ---- one op ---------------------------------------------------------------------------------- */

void td_op_set_result(struct td_judged_op *op, enum td_op_result r, const char *fmt, ...)
{
    va_list ap;
    char why[240];

    op->result = r;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    td_judged_op_set_why(op, why);
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
        td_op_set_result(op, TD_RESULT_BROKEN, "judged ok, but without an error measure");
        return true;
    case TD_OP_UNSUPPORTED:
        td_op_set_result(op, TD_RESULT_UNDECIDED, "unsupported: %s", reason);
        return true;
    case TD_OP_FAILED:
    case TD_OP_CRASHED:
    case TD_OP_HUNG:
        break;
    case TD_OP_NONE:
    case TD_OP_BROKEN:
        td_op_set_result(op, TD_RESULT_BROKEN, "could not be judged: %s", reason);
        return true;
    }
    td_op_set_result(op, base_died ? TD_RESULT_UNDECIDED : TD_RESULT_WORSE, "%s: %s%s",
                     op->status == TD_OP_OK ? "crashed" : td_op_status_name(op->status), reason,
                     base_died ? " (so does the baseline)" : "");
    return true;
}

#define FROM_WHERE 64
#define UNKNOWN 120

/* What would give the baseline's output, or how the baseline build ended that was to give it. Returns out. */
static const char *from_where(const struct td_judged_op *op, char out[FROM_WHERE])
{
    if (op->baseline_failed)
        snprintf(out, FROM_WHERE, "the baseline build: %.40s", op->baseline_failed);
    else
        snprintf(out, FROM_WHERE, "--baseline-build PATH");
    return out;
}

/* "" where there is a baseline. Returns out. */
static const char *unknown_baseline(const struct td_judged_op *op, const struct td_op_error *base, char out[UNKNOWN])
{
    char where[FROM_WHERE];

    snprintf(out, UNKNOWN, "; the baseline's output is not known (%s)", from_where(op, where));
    return base ? "" : out;
}

static bool decide_special_values(struct td_judged_op *op, const struct td_op_error *base)
{
    const struct td_op_error *c = &op->candidate;
    /* m and n are of one matrix of a batch */
    long long total = op->total > 0 ? op->total : op->m > 0 && op->n > 0 ? op->m * op->n : 0;
    char unknown[UNKNOWN];

    if (!isfinite(c->score)) { /* NaN where NaN is right has a finite score (replayer/judge.h) */
        const char *what = c->nan > 0 ? "NaN" : c->inf > 0 ? "Inf" : "a hidden NaN";
        long long count = c->nan > 0 ? c->nan : c->inf;

        if (!base)
            td_op_set_result(op, TD_RESULT_UNDECIDED,
                             "%s in %lld of %lld element%s%s", what, count, total, td_plural(total),
                             unknown_baseline(op, base, unknown));
        else if (isfinite(base->score) || c->nan > base->nan || c->inf > base->inf)
            td_op_set_result(op, TD_RESULT_WORSE, "%s in %lld of %lld element%s, baseline %lld",
                             what, count, total, td_plural(total), (long long)(c->nan > 0 ? base->nan : base->inf));
        else
            td_op_set_result(op, TD_RESULT_UNDECIDED,
                             "%s in %lld of %lld element%s, as in the baseline", what, count, total,
                             td_plural(total));
        return true;
    }
    if (c->ref_nonzero > 0 && total > 0 && c->zero == total) {
        bool base_zero = base && base->zero == total;

        td_op_set_result(op, base_zero ? TD_RESULT_UNDECIDED : TD_RESULT_WORSE,
                         "all %lld elements are zero%s", total,
                         base_zero ? ", as in the baseline" : "");
        return true;
    }
    return false;
}

static bool steady_beside(const struct td_op_error *base)
{
    return base && base->repeats > 1 && base->unstable == 0 && !base->varies;
}

bool td_op_varies_as_baseline(const struct td_judged_op *op, const struct td_judged_group *group)
{
    return op->status == TD_OP_OK && op->candidate.unstable > 0 &&
           steady_beside(td_op_baseline(op)) && group->runs.old_odd > 0;
}

bool td_op_varies_newly(const struct td_judged_op *op, const struct td_judged_group *group)
{
    return op->status == TD_OP_OK && op->candidate.unstable > 0 &&
           steady_beside(td_op_baseline(op)) && group->runs.old_odd == 0;
}

/* How far apart two right runs may lie: twice as far as a right run may be off. That is one rounding where sums are kept
 * in float32 (RUNS_SHARE of the floor leaves a quarter more), and the limit of declared sums in halves, whatever the
 * baseline is. A rougher baseline has its own limit. */
static double runs_limit(const struct td_judged_op *op, const struct td_op_error *base, const struct td_judged_group *group,
                         const struct td_policy *policy, double floor)
{
    const double halves = isnan(group->halves_score) ? 0 : 2 * policy->factor * group->halves_score;

    if (!base || !(group->old_score <= floor / 2))
        return fmax(op->limit, halves);
    return fmax(fmax(RUNS_SHARE * floor, base->spread), halves);
}

/* Right runs may differ, for sums can be added in any order. A run that lost an update, or read what another thread
 * was writing or what an earlier run had left, is further off. */
static bool decide_spread(struct td_judged_op *op, const struct td_op_error *base)
{
    const struct td_op_error *c = &op->candidate;
    char unknown[UNKNOWN];

    if (c->spread <= op->limit_runs)
        return false;
    td_op_set_result(op, base ? TD_RESULT_WORSE : TD_RESULT_UNDECIDED,
                     "unstable: %lld element%s differ%s between %lld runs, by %.3g roundings at the worst; sums in "
                     "any order explain %.3g%s",
                     (long long)c->unstable, td_plural(c->unstable), td_verb(c->unstable), (long long)c->repeats,
                     c->spread, op->limit_runs, unknown_baseline(op, base, unknown));
    return true;
}

/* Where the policy wants a kernel that repeats. A few runs that agree show no steady kernel. So the runs of all
 * ops of the kernel count together: the baseline's must never have varied, and the candidate's so often that
 * chance is ruled out. */
static bool decide_stability(struct td_judged_op *op, const struct td_op_error *base,
                             const struct td_kernel_runs *runs, double alpha)
{
    const struct td_op_error *c = &op->candidate;
    char where[FROM_WHERE];

    if (c->unstable == 0 || (base && (base->unstable > 0 || base->varies)))
        return false;
    if (steady_beside(base) && runs->old_odd > 0)
        return false;
    if (steady_beside(base) &&
        td_stat_share_larger_p((size_t)runs->new_odd, (size_t)runs->new_runs, 0,
                               (size_t)runs->old_runs) < alpha)
        td_op_set_result(op, TD_RESULT_WORSE,
                         "unstable: %lld element%s differ%s between %lld runs; the baseline repeats "
                         "bit for bit (runs that differ: %lld of %lld, before 0 of %lld)",
                         (long long)c->unstable, td_plural(c->unstable), td_verb(c->unstable),
                         (long long)c->repeats,
                         (long long)runs->new_odd, (long long)runs->new_runs,
                         (long long)runs->old_runs);
    else if (steady_beside(base))
        td_op_set_result(op, TD_RESULT_UNDECIDED,
                         "unstable: %lld element%s differ%s between %lld runs; too few to tell "
                         "(runs that differ: %lld of %lld, before 0 of %lld; " TD_MORE_RUNS
                         " or the whole recording)",
                         (long long)c->unstable, td_plural(c->unstable), td_verb(c->unstable),
                         (long long)c->repeats, (long long)runs->new_odd,
                         (long long)runs->new_runs, (long long)runs->old_runs);
    else
        td_op_set_result(
            op, TD_RESULT_UNDECIDED,
            "unstable: %lld element%s differ%s between %lld runs; whether the baseline's do is "
            "not known (%s)",
            (long long)c->unstable, td_plural(c->unstable), td_verb(c->unstable),
                         (long long)c->repeats, from_where(op, where));
    return true;
}

static void decide_by_score(struct td_judged_op *op, enum td_op_result r,
                            const struct td_op_error *base)
{
    const struct td_op_error *c = &op->candidate;
    const int part = part_over(op);
    char run[60] = "", room[UNKNOWN];
    const char *unknown = unknown_baseline(op, base, room);

    if (c->worst_run)
        snprintf(run, sizeof run, " in run %lld of %lld", (long long)c->worst_run + 1, (long long)c->repeats);

    if (part >= 0)
        op->limit_rms = op->limit_of[part];
    if (!(c->score <= op->limit))
        td_op_set_result(op, r, "error %.3g%s, element limit %.3g%s", c->score, run, op->limit, unknown);
    else if (part == TD_RMS_COL)
        td_op_set_result(op, r, "column %lld: rms error %.3g, rms limit %.3g%s",
                         (long long)c->col_at, c->col, op->limit_rms, unknown);
    else if (part == TD_RMS_ROW)
        td_op_set_result(op, r, "row %lld: rms error %.3g, rms limit %.3g%s", (long long)c->row_at,
                         c->row, op->limit_rms, unknown);
    else
        td_op_set_result(op, r, "tile at row %lld, column %lld: rms error %.3g, rms limit %.3g%s",
                         (long long)c->tile_row, (long long)c->tile_col, c->tile, op->limit_rms,
                         unknown);
}

/* Without a reference an op is worse only if it crashed, hung, or gave NaN where a number is due
 * (status failed). One that lacked memory is broken like any other. */
static bool decide_without_reference(struct td_judged_op *op, const struct td_op_error *base)
{
    if (!op->without_reference)
        return false;
    if (op->status != TD_OP_OK && op->status != TD_OP_UNSUPPORTED)
        return decide_status(op, base);
    if (op->status != TD_OP_OK)
        td_op_set_result(op, TD_RESULT_COMPARED, "%s: %s", td_op_status_name(op->status),
                         op->reason ? op->reason : "no reason given");
    else if (op->same)
        td_op_set_result(op, TD_RESULT_COMPARED, "bit-equal");
    else if (isnan(op->departs))
        td_op_set_result(op, TD_RESULT_COMPARED, "there is no other output to compare with");
    else
        td_op_set_result(op, TD_RESULT_COMPARED, "departs by %.3g (relative L2) under equal input",
                         op->departs);
    return true;
}

/* One word of a declaration, n bytes long, in plain words. */
static void word_in_words(const char *word, int n, char *out, size_t size)
{
    static const struct {
        const char *name, *words;
    } known[] = {{"none", "activations are not rounded"},
                 {"uint8-token", "activations are rounded to 8 bits per token (uint8-token)"},
                 {"weight-bf16", "weights are rounded to BF16 (weight-bf16)"},
                 {"weight-f16", "weights are rounded to F16 (weight-f16)"},
                 {"zero-bf16", "scaled zero points, then weights, are rounded to BF16 (zero-bf16)"},
                 {"zero-f16", "scaled zero points, then weights, are rounded to F16 (zero-f16)"},
                 {"bias-after", "the product is rounded before the bias is added (bias-after)"},
                 {"sum-e8m13", "sums are kept with 13 bits of fraction (sum-e8m13)"}};
    size_t i;

    for (i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((int)strlen(known[i].name) == n && strncmp(known[i].name, word, (size_t)n) == 0)
            break;
    if (i < sizeof known / sizeof known[0])
        snprintf(out, size, "%s", known[i].words);
    else
        snprintf(out, size, "activations are rounded to %.*s", n < 40 ? n : 40, word);
}

/* A declaration is words joined by '+'. */
static void rounding_words(const char *rounding, char *out, size_t size)
{
    size_t at = 0;

    for (const char *word = rounding; at < size;) {
        const int n = (int)strcspn(word, "+");

        word_in_words(word, n, out + at, size - at);
        at += strlen(out + at);
        if (!word[n])
            break;
        at += (size_t)snprintf(out + at, size - at, ", and ");
        word += n + 1;
    }
}

void td_op_rounding_change(const char *now, const char *was, char *out, size_t n)
{
    char a[160], b[160];

    rounding_words(now, a, sizeof a);
    rounding_words(was, b, sizeof b);
    snprintf(out, n, "%s; before: %s", a, b);
}

/* Does the kernel multiply A as it is, by weights that are exact or rounded to 16 bits? What it
 * rounds on the way from the sums to C is its own matter. */
static bool rounds_weights_at_most(const char *rounding)
{
    return !strncmp(rounding, "none", 4) || !strncmp(rounding, "weight-", 7) ||
           !strncmp(rounding, "zero-", 5) || !strncmp(rounding, "bias-after", 10) ||
           !strncmp(rounding, "sum-", 4);
}

/* An op that is right by its own format, but the baseline has another one. How weights are rounded
 * to 16 bits, how sums are kept, and when a bias is added, is the kernel's own matter: it is noted. Any other change is undecided, unless the
 * policy accepts it. */
static bool decide_format(struct td_judged_op *op, const struct td_op_error *base,
                          const struct td_policy *policy)
{
    const char *was = td_op_baseline_rounding(op);
    char change[360];

    op->format_changed = strcmp(was, op->act_rounding) != 0 ||
                         (op->origin && strcmp(op->origin->kind, op->kind) != 0);
    if (!op->format_changed)
        return false;
    op->format = policy->accept_format_change ? TD_FORMAT_ACCEPTED : TD_FORMAT_UNDECIDED;
    if (rounds_weights_at_most(was) && rounds_weights_at_most(op->act_rounding) &&
        (!op->origin || !strcmp(op->origin->kind, op->kind)))
        op->format = TD_FORMAT_NOTED;
    if (op->format != TD_FORMAT_UNDECIDED)
        return false;
    td_op_rounding_change(op->act_rounding, was, change, sizeof change);
    td_op_set_result(op, TD_RESULT_UNDECIDED,
                     "the format changed: %s; distance to exact arithmetic %.3g, before %.3g",
                     change, op->candidate.r0_rel_l2, base ? base->r0_rel_l2 : NAN);
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

    td_judged_op_set_why(op, "");
    op->format_changed = false;
    op->limit = floor;
    op->limit_rms = floor_rms;
    if (group->baselines) /* fmax ignores NaN: a group without a finite baseline keeps the floor */
        op->limit = fmax(floor, policy->factor * fmax(group->old_score, group->halves_score));
    for (i = 0; i < TD_RMS_PARTS; i++) {
        op->limit_of[i] =
            group->baselines ? fmax(floor_rms, policy->factor * fmax(group->old_of[i], group->halves_of[i])) : floor_rms;
        op->limit_rms = fmax(op->limit_rms, op->limit_of[i]);
    }
    if (base)
        op->limit = fmax(op->limit, base->spread);
    op->limit_runs = runs_limit(op, base, group, policy, floor);
    if (decide_without_reference(op, base) || decide_status(op, base) ||
        decide_special_values(op, base))
        return;
    over = !(c->score <= op->limit) || part_over(op) >= 0;
    if (over && c->worst_run && decide_spread(op, base))
        return; /* that a run is off is what is wrong, and by how much is the lesser news */
    if (over)
        decide_by_score(op, base ? TD_RESULT_WORSE : TD_RESULT_UNDECIDED, base);
    else if (!decide_spread(op, base) &&
             !(policy->must_repeat && decide_stability(op, base, &group->runs, policy->numerics_alpha)) &&
             !decide_format(op, base, policy))
        op->result = TD_RESULT_OK;
}

/* ---- how much over the limit ----------------------------------------------------------------- */

static double error_of(const struct td_op_error *e, int part)
{
    return !e || !e->present ? NAN : part < 0 ? e->score : td_op_rms(e, part);
}

double td_op_times(double error, double limit)
{
    return isnan(error) || limit <= 0 ? INFINITY : error / limit;
}

void td_op_excess(const struct td_judged_op *op, struct td_excess *out)
{
    static const char *const OF[] = {"element", "column", "row", "tile"};
    const struct td_op_error *c = &op->candidate;
    double most = 1;
    int part;

    *out = (struct td_excess){NULL, NAN, NAN, NAN};
    if (!c->present || c->crash || op->status != TD_OP_OK)
        return;
    for (part = -1; part < TD_RMS_PARTS; part++) {
        const double limit = part < 0 ? op->limit : op->limit_of[part], error = error_of(c, part);

        if (!(td_op_times(error, limit) > most))
            continue;
        most = td_op_times(error, limit);
        *out = (struct td_excess){OF[part + 1], error_of(td_op_baseline(op), part), error, limit};
    }
    if (!out->of && td_op_times(c->spread, op->limit_runs) > 1)
        *out = (struct td_excess){"runs", td_op_baseline(op) ? td_op_baseline(op)->spread : NAN, c->spread, op->limit_runs};
}
