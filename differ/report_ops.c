/* report_ops.c - replayed ops in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/kernel_names.h"
#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/report_bias.h"
#include "differ/report_which.h"

/* Ops that were judged and are not ok. */
static bool is_bad(const struct td_judged_op *op)
{
    return op->status != TD_OP_NONE && op->result != TD_RESULT_OK &&
           op->result != TD_RESULT_COMPARED;
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
    td_jw_i64(w, "row_at", e->row_at);
    td_jw_i64(w, "col_at", e->col_at);
    td_jw_i64(w, "tile_row_at", e->tile_row);
    td_jw_i64(w, "tile_col_at", e->tile_col);
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
    char kernel[128];
    int i;

    td_kernel_short_name(op->symbol ? op->symbol : op->kind, kernel, sizeof kernel);
    td_jw_obj(w, key);
    td_jw_cstr(w, "fixture", op->fixture);
    td_jw_i64(w, "op", op->op);
    td_jw_i64(w, "step", op->step);
    td_jw_i64(w, "pid", op->pid);
    td_jw_i64(w, "turn", op->turn);
    td_jw_cstr(w, "kind", op->kind);
    td_jw_cstr(w, "layer", op->layer);
    td_jw_i64(w, "rank", op->rank);
    td_jw_cstr(w, "symbol", op->symbol);
    td_jw_cstr(w, "kernel", kernel);
    td_jw_cstr(w, "shape", op->shape);
    td_jw_i64(w, "m", op->m);
    td_jw_i64(w, "n", op->n);
    td_jw_i64(w, "k", op->k);
    td_jw_cstr(w, "m_class", td_m_class_name(op->m_class));
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
    td_op_over_write(op->over, w, "over");
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
    char words[TD_COVERAGE_WORDS];

    td_jw_i64(w, "seen", c->seen);
    td_jw_i64(w, "unread_gemms", c->unread);
    td_jw_i64(w, "unread_graphs", c->graphs);
    td_jw_i64(w, "rested_ms", c->rested_ms);
    td_jw_bool(w, "extract", c->extract);
    td_coverage_words(c, words);
    td_jw_cstr(w, "gemms", words);
}

/* The floors of a group's limits, as they are used: a policy may leave them to the judge. */
static void write_floors(struct td_jw *w, const struct td_judged_group *g,
                         const struct td_comparison *c)
{
    double floor = NAN;
    size_t i;

    for (i = 0; i < c->ops.n && isnan(floor); i++) {
        const struct td_judged_op *op = &c->ops.op[i];

        if (op->status != TD_OP_NONE && op->kind == g->kind && op->shape == g->shape)
            floor = td_policy_floor(&c->policy, op->kind, op->dtype, op->judge_floor);
    }
    td_jw_num_or_null(w, "floor", floor);
    td_jw_num_or_null(w, "floor_rms",
                      c->policy.floor_rms * floor / (c->policy.floor > 0 ? c->policy.floor : 1));
}

static void write_group(struct td_jw *w, const struct td_judged_group *g,
                        const struct td_comparison *c)
{
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "kind", g->kind);
    td_jw_cstr(w, "shape", g->shape);
    td_jw_i64(w, "n", g->n);
    td_jw_i64(w, "k", g->k);
    td_jw_cstr(w, "m_class", td_m_class_name(g->m_class));
    td_jw_cstr(w, "dtype", g->dtype);
    td_jw_i64(w, "recorded", (int64_t)g->recorded);
    td_jw_i64(w, "judged", (int64_t)g->judged);
    td_jw_i64(w, "bad", (int64_t)g->worse);
    td_jw_i64(w, "undecided", (int64_t)g->undecided);
    td_jw_i64(w, "broken", (int64_t)g->broken);
    td_jw_i64(w, "bit_equal", (int64_t)g->bit_equal);
    td_jw_num_or_null(w, "new_score", g->new_score);
    td_jw_num_or_null(w, "old_score", g->old_score);
    td_jw_num(w, "limit", g->limit);
    td_jw_num_or_null(w, "new_rms", g->new_rms);
    td_jw_num_or_null(w, "old_rms", g->old_rms);
    td_jw_num(w, "limit_rms", g->limit_rms);
    write_floors(w, g, c);
    td_jw_num_or_null(w, "new_rel_l2", g->new_rel);
    td_jw_num_or_null(w, "old_rel_l2", g->old_rel);
    write_group_extras(w, g);
    td_jw_end(w);
}

static int by_execution(const void *a, const void *b)
{
    const struct td_judged_op *p = *(const struct td_judged_op *const *)a,
                              *q = *(const struct td_judged_op *const *)b;

    return td_judged_op_runs_before(q, p) - td_judged_op_runs_before(p, q);
}

/* One by one, in order of execution; those that are ok are counted in their group. */
static void write_not_ok(struct td_jw *w, const struct td_judged_ops *ops)
{
    const struct td_judged_op **all = malloc((ops->n + 1) * sizeof(*all));
    size_t i, n = 0;

    for (i = 0; all && i < ops->n; i++)
        if (is_bad(&ops->op[i]))
            all[n++] = &ops->op[i];
    if (all)
        qsort(all, n, sizeof(*all), by_execution);
    td_jw_arr(w, "not_ok");
    for (i = 0; i < n; i++)
        td_op_write_json(w, NULL, all[i]);
    td_jw_end(w);
    free(all);
}

void td_ops_write_json(struct td_jw *w, const struct td_comparison *c, const struct td_numerics *n)
{
    size_t i;

    td_jw_obj(w, "ops");
    td_jw_i64(w, "judged", (int64_t)n->judged);
    td_jw_i64(w, "bad", (int64_t)n->worse);
    td_jw_i64(w, "undecided", (int64_t)n->undecided);
    td_jw_i64(w, "broken", (int64_t)n->broken);
    td_jw_i64(w, "bit_equal", (int64_t)n->bit_equal);
    td_jw_i64(w, "recorded", (int64_t)c->base_ops.n);
    write_coverage(w, &c->coverage);
    td_jw_i64(w, "format_changed", (int64_t)n->format_changed);
    td_jw_i64(w, "compared", (int64_t)n->compared);
    td_jw_i64(w, "compared_equal", (int64_t)n->compared_equal);
    td_jw_i64(w, "not_compared", (int64_t)n->not_compared);
    if (n->first_departs)
        td_op_write_json(w, "first_departs", n->first_departs);
    else
        td_jw_null(w, "first_departs");
    td_bias_write_json(w, &n->bias);
    td_repeats_write_json(w, &n->repeats);
    td_jw_cstr(w, "coverage", n->coverage);
    td_jw_arr(w, "groups");
    for (i = 0; i < n->n; i++)
        write_group(w, &n->group[i], c);
    td_jw_end(w);
    write_not_ok(w, &c->ops);
    td_jw_end(w);
}

/* ---- the lane in one line -------------------------------------------------------------------- */

/* The bad op that is furthest over its limit; NULL: none is bad by its error. */
static const struct td_judged_op *find_worst(const struct td_judged_ops *ops, struct td_excess *most)
{
    const struct td_judged_op *worst = NULL;
    struct td_excess e;
    size_t i;

    for (i = 0; i < ops->n; i++) {
        if (ops->op[i].result != TD_RESULT_WORSE)
            continue;
        td_op_excess(&ops->op[i], &e);
        if (e.of && (!worst || !(e.new_error / e.limit <= most->new_error / most->limit))) {
            worst = &ops->op[i];
            *most = e;
        }
    }
    return worst;
}

static size_t count_failed(const struct td_judged_ops *ops)
{
    size_t i, n = 0;

    for (i = 0; i < ops->n; i++)
        n += ops->op[i].result == TD_RESULT_WORSE &&
             (ops->op[i].status != TD_OP_OK || ops->op[i].candidate.crash);
    return n;
}

/* An error of one element has another limit than the rms over a column, row or tile. How far runs lie apart is no
 * error. */
static void add_worst(struct td_buf *out, const struct td_excess *e)
{
    const bool element = strcmp(e->of, "element") == 0;

    if (strcmp(e->of, "runs") == 0) {
        td_buf_addf(out, ": runs of an op lie apart by %.3g roundings, limit %.3g", e->new_error, e->limit);
        return;
    }
    td_buf_adds(out, element ? ": the worst error is " : ": the worst rms error ");
    if (!element)
        td_buf_addf(out, "of a %s is ", e->of);
    if (isfinite(e->new_error))
        td_buf_addf(out, "%.3g", e->new_error);
    else
        td_buf_adds(out, isnan(e->new_error) ? "NaN" : "Inf");
    td_buf_addf(out, ", %s limit %.3g", element ? "element" : "rms", e->limit);
}

static void add_clearest_bias(struct td_buf *out, const struct td_bias_finding *f)
{
    char words[160], place[240];

    td_bias_words(f, words, sizeof words);
    td_bias_place(f, place, sizeof place);
    td_buf_addf(out, ": %s (%s)", words, place);
}

void td_ops_headline(const struct td_judged_ops *ops, const struct td_numerics *n,
                     const char *first_why, struct td_buf *out)
{
    const size_t failed = count_failed(ops);
    struct td_excess e;

    if (!n->worse)
        return;
    td_buf_addf(out, "%zu of %zu op%s %s bad", n->worse, n->judged, td_plural((int64_t)n->judged),
                td_is((int64_t)n->worse));
    if (find_worst(ops, &e))
        add_worst(out, &e);
    if (failed)
        td_buf_addf(out, "%s %zu crashed or failed", n->worse > failed ? ";" : ":", failed);
    else if (!find_worst(ops, &e) && n->bias.n)
        add_clearest_bias(out, &n->bias.found[0]);
    else if (!find_worst(ops, &e))
        td_buf_addf(out, ": %s", first_why);
}
