/* report_ops.c - replayed ops in the text report, the JSON report and the JUnit report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "differ/report_verdict.h"

/* ---- text report ----------------------------------------------------------------------------- */

static int by_execution(const void *a, const void *b)
{
    const struct td_judged_op *p = *(const struct td_judged_op *const *)a;
    const struct td_judged_op *q = *(const struct td_judged_op *const *)b;

    return td_judged_op_runs_before(q, p) - td_judged_op_runs_before(p, q);
}

static const char *number(double v, char *out, size_t n)
{
    if (isnan(v))
        snprintf(out, n, "-");
    else if (isinf(v))
        snprintf(out, n, "broken");
    else
        snprintf(out, n, "%.3g", v);
    return out;
}

/* " M=20"; "" for a kind of op that has no M. */
static const char *rows_words(const struct td_judged_op *op, char *out, size_t n)
{
    out[0] = '\0';
    if (op->m >= 0)
        snprintf(out, n, " M=%lld", (long long)op->m);
    return out;
}

static void print_bad_op(const struct td_page *p, const struct td_judged_op *op)
{
    char m[32], layer[300];

    fprintf(p->out, "  op %-6lld %s %s%s%s%s: %s: %s\n", (long long)op->op, op->kind, op->shape,
            rows_words(op, m, sizeof m), op->layer ? " " : "",
            op->layer ? td_judged_op_layer_words(op, "", layer, sizeof layer) : "",
            td_op_result_name(op->result), op->why);
}

/* Ops that were judged and are not ok. */
static bool is_bad(const struct td_judged_op *op)
{
    return op->status != TD_OP_NONE && op->result != TD_RESULT_OK &&
           op->result != TD_RESULT_COMPARED;
}

/* The bad ops one by one, in order of execution. */
static void print_bad_ops(const struct td_page *p, const struct td_judged_ops *ops)
{
    const struct td_judged_op **bad = malloc((ops->n + 1) * sizeof(*bad));
    size_t i, n = 0, shown;

    if (!bad)
        return;
    for (i = 0; i < ops->n; i++)
        if (is_bad(&ops->op[i]))
            bad[n++] = &ops->op[i];
    qsort(bad, n, sizeof(*bad), by_execution);
    shown = n > TD_PAGE_SHOWN && !p->verbose ? TD_PAGE_SHOWN : n;
    if (n)
        fprintf(p->out, "\n");
    for (i = 0; i < shown; i++)
        print_bad_op(p, bad[i]);
    if (shown < n)
        fprintf(p->out, "  (%zu of %zu shown; --verbose shows all)\n", shown, n);
    free(bad);
}

/* Each build is judged by the R1 of its own format; its distance to R0 is what the format costs. */
static void print_formats(const struct td_page *p, const struct td_numerics *n)
{
    char change[200], a[24], b[24];
    size_t i;

    if (!n->format_changed)
        return;
    td_page_title(p, "formats that changed (relative L2 distance to exact arithmetic, worst op)");
    for (i = 0; i < n->n; i++) {
        const struct td_judged_group *g = &n->group[i];

        if (!g->format_changed)
            continue;
        td_op_rounding_change(g->new_rounding, g->old_rounding, change, sizeof change);
        fprintf(p->out, "  %s %s %s: new %s, old %s; %s\n", g->kind, g->shape,
                td_m_class_name(g->m_class), number(g->new_r0, a, sizeof a),
                number(g->old_r0, b, sizeof b), change);
    }
}

/* Ops without a reference, a line for each kind: groups of one kind stand together. */
static void print_compared(const struct td_page *p, const struct td_numerics *n)
{
    size_t i, ops = 0, equal = 0, skipped = 0;
    double worst = NAN;
    char a[24];

    if (n->compared + n->not_compared == 0)
        return;
    td_page_title(
        p, "ops without a reference (their outputs beside the baseline's, under equal input)");
    fprintf(p->out, "  %-24s %6s %6s %12s  %s\n", "kind", "ops", "equal", "not compared",
            "largest relative departure");
    for (i = 0; i < n->n; i++) {
        const struct td_judged_group *g = &n->group[i];

        ops += g->compared;
        equal += g->compared_equal;
        skipped += g->not_compared;
        worst = fmax(worst, g->departs);
        if (i + 1 < n->n && strcmp(g->kind, n->group[i + 1].kind) == 0)
            continue;
        if (ops + skipped)
            fprintf(p->out, "  %-24s %6zu %6zu %12zu  %s\n", g->kind, ops, equal, skipped,
                    number(worst, a, sizeof a));
        ops = equal = skipped = 0;
        worst = NAN;
    }
}

/* The width of the column of kinds or of shapes: that of the longest text, at least `least`. */
static int width_of(const struct td_numerics *n, bool shapes, int least)
{
    size_t i;

    for (i = 0; i < n->n; i++) {
        int len = (int)strlen(shapes ? n->group[i].shape : n->group[i].kind);

        least = len > least ? len : least;
    }
    return least;
}

static void print_group(const struct td_page *p, const struct td_judged_group *g, int kind,
                        int shape)
{
    char a[24], b[24], c[24], d[24], e[24], f[24];

    fprintf(p->out, "  %-*s  %-*s  %-8s %6zu ", kind, g->kind, shape, g->shape,
            td_m_class_name(g->m_class), g->judged);
    snprintf(a, sizeof a, "%6zu", g->worse);
    td_page_verdict(p, g->worse ? TD_REGRESSED : TD_NOT_JUDGED, a, 6);
    fprintf(p->out, " %6zu | %8s %8s %8s | %8s %8s %8s%s\n", g->bit_equal,
            number(g->new_score, a, sizeof a), number(g->old_score, b, sizeof b),
            number(g->limit, c, sizeof c), number(g->new_rms, d, sizeof d),
            number(g->old_rms, e, sizeof e), number(g->limit_rms, f, sizeof f),
            g->judged == 0             ? "  not replayed"
            : g->undecided + g->broken ? "  some undecided"
                                       : "");
}

void td_ops_print(const struct td_page *p, const struct td_numerics *n,
                  const struct td_judged_ops *ops)
{
    const int kind = width_of(n, false, 6), shape = width_of(n, true, 5);
    size_t i;

    print_compared(p, n);
    if (n->judged == 0)
        return;
    td_page_title(p, "ops (error in units of correct rounding: worst element, and rms of the worst "
                     "row, column or tile)");
    fprintf(p->out, "  %-*s  %-*s  %-8s %6s %6s %6s | %8s %8s %8s | %8s %8s %8s\n", kind, "kernel",
            shape, "N x K", "M", "ops", "worse", "equal", "new", "old", "limit", "rms new",
            "rms old", "limit");
    for (i = 0; i < n->n; i++)
        if (n->group[i].judged || n->group[i].compared + n->group[i].not_compared == 0)
            print_group(p, &n->group[i], kind, shape);
    print_bad_ops(p, ops);
    print_formats(p, n);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_op_error(struct td_jw *w, const char *key, const struct td_op_error *e)
{
    if (!e->present) {
        td_jw_null(w, key);
        return;
    }
    td_jw_obj(w, key);
    td_jw_num(w, "score", e->score);
    td_jw_num(w, "rel_l2", e->rel_l2);
    td_jw_num_or_null(w, "r0_rel_l2", e->r0_rel_l2);
    td_jw_num(w, "max_abs", e->max_abs);
    td_jw_num(w, "worst_row", e->row);
    td_jw_num(w, "worst_col", e->col);
    td_jw_num(w, "worst_tile", e->tile);
    td_jw_i64(w, "nan", e->nan);
    td_jw_i64(w, "inf", e->inf);
    td_jw_i64(w, "zero", e->zero);
    td_jw_i64(w, "repeats", e->repeats);
    td_jw_i64(w, "unstable", e->unstable);
    td_jw_num(w, "spread", e->spread);
    if (e->crash)
        td_jw_cstr(w, "crash", e->crash);
    td_jw_end(w);
}

void td_op_write_json(struct td_jw *w, const char *key, const struct td_judged_op *op)
{
    int i;

    td_jw_obj(w, key);
    td_jw_cstr(w, "fixture", op->fixture);
    td_jw_i64(w, "op", op->op);
    td_jw_i64(w, "step", op->step);
    td_jw_i64(w, "pid", op->pid);
    td_jw_cstr(w, "kind", op->kind);
    td_jw_cstr(w, "layer", op->layer);
    td_jw_cstr(w, "symbol", op->symbol);
    td_jw_obj(w, "attrs");
    for (i = 0; i < op->n_attrs; i++)
        td_jw_i64(w, op->attr[i].name, op->attr[i].value);
    td_jw_end(w);
    td_jw_cstr(w, "status", td_op_status_name(op->status));
    td_jw_cstr(w, "result", td_op_result_name(op->result));
    td_jw_cstr(w, "why", op->why);
    td_jw_num(w, "limit", op->limit);
    td_jw_num(w, "limit_rms", op->limit_rms);
    td_jw_num_or_null(w, "format_cost", op->format_cost);
    td_jw_cstr(w, "act_rounding", op->act_rounding);
    td_jw_cstr(w, "baseline_rounding", td_op_baseline_rounding(op));
    td_jw_bool(w, "format_changed", op->format_changed);
    if (op->without_reference)
        td_jw_num_or_null(w, "departs", op->departs);
    td_jw_i64(w, "equal", op->equal);
    td_jw_i64(w, "total", op->total);
    write_op_error(w, "recorded", &op->recorded);
    write_op_error(w, "baseline", &op->baseline);
    write_op_error(w, "candidate", &op->candidate);
    td_jw_end(w);
}

/* Figures of ops without a reference, and of ops whose format changed. */
static void write_group_extras(struct td_jw *w, const struct td_judged_group *g)
{
    td_jw_i64(w, "compared", (int64_t)g->compared);
    td_jw_i64(w, "compared_equal", (int64_t)g->compared_equal);
    td_jw_i64(w, "not_compared", (int64_t)g->not_compared);
    td_jw_num_or_null(w, "departs", g->departs);
    td_jw_i64(w, "format_changed", (int64_t)g->format_changed);
    if (!g->format_changed)
        return;
    td_jw_cstr(w, "old_rounding", g->old_rounding);
    td_jw_cstr(w, "new_rounding", g->new_rounding);
    td_jw_num_or_null(w, "old_r0_rel_l2", g->old_r0);
    td_jw_num_or_null(w, "new_r0_rel_l2", g->new_r0);
}

static void write_coverage(struct td_jw *w, const struct td_coverage *c)
{
    td_jw_i64(w, "seen", c->seen);
    td_jw_i64(w, "unread_gemms", c->unread);
    td_jw_i64(w, "unread_graphs", c->graphs);
    td_jw_i64(w, "rested_ms", c->rested_ms);
    td_jw_bool(w, "extract", c->extract);
}

static void write_group(struct td_jw *w, const struct td_judged_group *g)
{
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "kind", g->kind);
    td_jw_cstr(w, "shape", g->shape);
    td_jw_cstr(w, "m_class", td_m_class_name(g->m_class));
    td_jw_cstr(w, "dtype", g->dtype);
    td_jw_i64(w, "recorded", (int64_t)g->recorded);
    td_jw_i64(w, "judged", (int64_t)g->judged);
    td_jw_i64(w, "worse", (int64_t)g->worse);
    td_jw_i64(w, "undecided", (int64_t)g->undecided);
    td_jw_i64(w, "broken", (int64_t)g->broken);
    td_jw_i64(w, "bit_equal", (int64_t)g->bit_equal);
    td_jw_num_or_null(w, "new_score", g->new_score);
    td_jw_num_or_null(w, "old_score", g->old_score);
    td_jw_num(w, "limit", g->limit);
    td_jw_num_or_null(w, "new_rms", g->new_rms);
    td_jw_num_or_null(w, "old_rms", g->old_rms);
    td_jw_num(w, "limit_rms", g->limit_rms);
    td_jw_num_or_null(w, "new_rel_l2", g->new_rel);
    td_jw_num_or_null(w, "old_rel_l2", g->old_rel);
    write_group_extras(w, g);
    td_jw_end(w);
}

void td_ops_write_json(struct td_jw *w, const struct td_numerics *n,
                       const struct td_judged_ops *ops, size_t recorded,
                       const struct td_coverage *coverage)
{
    size_t i;

    td_jw_obj(w, "ops");
    td_jw_i64(w, "judged", (int64_t)n->judged);
    td_jw_i64(w, "worse", (int64_t)n->worse);
    td_jw_i64(w, "undecided", (int64_t)n->undecided);
    td_jw_i64(w, "broken", (int64_t)n->broken);
    td_jw_i64(w, "bit_equal", (int64_t)n->bit_equal);
    td_jw_i64(w, "recorded", (int64_t)recorded);
    write_coverage(w, coverage);
    td_jw_i64(w, "format_changed", (int64_t)n->format_changed);
    td_jw_i64(w, "compared", (int64_t)n->compared);
    td_jw_i64(w, "compared_equal", (int64_t)n->compared_equal);
    td_jw_i64(w, "not_compared", (int64_t)n->not_compared);
    if (n->first_departs)
        td_op_write_json(w, "first_departs", n->first_departs);
    else
        td_jw_null(w, "first_departs");
    td_jw_cstr(w, "coverage", n->coverage);
    td_jw_arr(w, "groups");
    for (i = 0; i < n->n; i++)
        write_group(w, &n->group[i]);
    td_jw_end(w);
    td_jw_arr(w, "not_ok"); /* one by one; those that are ok are counted in their group */
    for (i = 0; i < ops->n; i++)
        if (is_bad(&ops->op[i]))
            td_op_write_json(w, NULL, &ops->op[i]);
    td_jw_end(w);
    td_jw_end(w);
}

/* ---- JUnit ----------------------------------------------------------------------------------- */

void td_ops_add_cases(struct td_junit *junit, const struct td_numerics *n)
{
    char name[200], why[200];
    size_t i;

    for (i = 0; i < n->n; i++) {
        const struct td_judged_group *g = &n->group[i];
        enum td_verdict v = g->worse                   ? TD_REGRESSED
                            : g->undecided + g->broken ? TD_INCONCLUSIVE
                            : g->judged                ? TD_PASS
                                                       : TD_NOT_JUDGED;

        if (g->judged == 0 && g->compared + g->not_compared)
            continue; /* information only: nothing is judged by them */
        snprintf(name, sizeof name, "%s %s %s", g->kind, g->shape, td_m_class_name(g->m_class));
        snprintf(why, sizeof why,
                 "%zu of %zu worse, %zu undecided; worst error %.3g, baseline %.3g, limit %.3g",
                 g->worse, g->judged, g->undecided + g->broken, g->new_score, g->old_score,
                 g->limit);
        td_junit_verdict(junit, "op", name, v, why);
    }
}
