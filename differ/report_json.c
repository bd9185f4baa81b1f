/* report_json.c - everything that the text says and more, for programs (schema: docs/verdicts.md, "The JSON report").
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "differ/compare.h"

#define REPORT_MAX ((size_t)1 << 30)
#define SCHEMA "tapedeck-report-1"

static void num_or_null(struct td_jw *w, const char *key, double v)
{
    if (isnan(v))
        td_jw_null(w, key);
    else
        td_jw_num(w, key, v);
}

static void write_sides(struct td_jw *w, const struct td_weighing *x)
{
    static const char *const ROLE[TD_N_ROLES] = {"baseline", "baseline-live", "candidate", "calibrate"};
    size_t i;

    td_jw_arr(w, "fixtures");
    for (i = 0; i < x->n_sides; i++) {
        const cJSON *m = td_fixture_manifest(x->side[i].fx);

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "role", ROLE[x->side[i].role]);
        td_jw_i64(w, "round", x->side[i].round);
        td_jw_cstr(w, "dir", td_fixture_dir(x->side[i].fx));
        td_jw_cstr(w, "id", td_fixture_id(x->side[i].fx));
        td_jw_i64(w, "exchanges", (int64_t)x->side[i].n_xs);
        if (td_json_get(m, "server"))
            td_jw_value(w, "server", td_json_get(m, "server"));
        if (td_json_get(m, "replay"))
            td_jw_value(w, "replay", td_json_get(m, "replay"));
        td_jw_end(w);
    }
    td_jw_end(w);
}

static void write_lanes(struct td_jw *w, const struct td_weighing *x)
{
    int i, j;

    td_jw_obj(w, "lanes");
    for (i = 0; i < TD_N_LANES; i++) {
        const struct td_lane *l = &x->lane[i];

        td_jw_obj(w, td_lane_name(l->id));
        td_jw_bool(w, "asked", l->asked);
        td_jw_cstr(w, "verdict", td_verdict_name(l->asked ? l->verdict : TD_NOT_JUDGED));
        td_jw_arr(w, "notes");
        for (j = 0; j < l->n_notes; j++) {
            td_jw_obj(w, NULL);
            td_jw_cstr(w, "verdict", l->notes[j].verdict == TD_NOT_JUDGED ? "note" : td_verdict_name(l->notes[j].verdict));
            td_jw_cstr(w, "text", l->notes[j].text);
            td_jw_end(w);
        }
        td_jw_end(w);
        td_jw_end(w);
    }
    td_jw_end(w);
}

/* ---- answers ------------------------------------------------------------------------------------------------------- */

static void write_answer(struct td_jw *w, const struct td_prompt_group *g, const struct td_exchange *x)
{
    td_jw_cstr(w, "prompt_id", g ? g->prompt_id : x->prompt_id);
    td_jw_cstr(w, "category", g ? g->category : x->category);
    td_jw_i64(w, "repeat", x->repeat);
    td_jw_i64(w, "stream", x->stream);
}

static void write_around(struct td_jw *w, const char *key, const struct td_exchange *x, size_t at)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);

    td_report_excerpt(x->text ? x->text : "", x->text_len, at, 120, 240, &b);
    td_jw_str(w, key, td_buf_str(&b), b.len);
    td_buf_release(&b);
}

static void write_tokens(struct td_jw *w, const struct td_tokens *t)
{
    size_t i;

    td_jw_obj(w, "tokens");
    td_jw_i64(w, "prompts", (int64_t)t->prompts);
    td_jw_i64(w, "prompts_forked", (int64_t)t->prompts_forked);
    td_jw_i64(w, "answers", (int64_t)t->answers);
    td_jw_i64(w, "attempts", (int64_t)t->attempts);
    td_jw_i64(w, "errors_alike", (int64_t)t->errors_alike);
    td_jw_i64(w, "prompts_missing", (int64_t)t->missing);
    num_or_null(w, "gap_noise", t->gap_noise);
    td_jw_i64(w, "prompts_over", (int64_t)t->prompts_over);
    num_or_null(w, "gap_p", t->gap_p);
    td_jw_num(w, "gap_limit", t->gap_limit);
    td_jw_i64(w, "gaps_hopeless", (int64_t)t->gaps_hopeless);
    td_jw_i64(w, "gaps_unknown", (int64_t)t->gaps_unknown);
    td_jw_num(w, "share_p", t->share_p);
    num_or_null(w, "mean_dlogprob", t->mean_dlogprob);
    td_jw_arr(w, "forks");
    for (i = 0; i < t->n_forks; i++) {
        const struct td_fork *f = &t->forks[i];
        size_t at = td_report_common_prefix(f->good, f->bad);

        td_jw_obj(w, NULL);
        write_answer(w, f->group, f->bad);
        td_jw_i64(w, "round", f->round);
        td_jw_i64(w, "closest_repeat", f->good->repeat);
        td_jw_cstr(w, "unit", td_unit_name(f->at.unit));
        td_jw_i64(w, "position", f->at.position);
        num_or_null(w, "gap", f->gap);
        td_jw_bool(w, "outside_top_k", f->outside_top_k);
        num_or_null(w, "mean_dlogprob", f->mean_dlogprob);
        write_around(w, "good", f->good, at);
        write_around(w, "new", f->bad, at);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_arr(w, "lost");
    for (i = 0; i < t->n_lost; i++) {
        td_jw_obj(w, NULL);
        write_answer(w, NULL, t->lost[i]);
        td_jw_cstr(w, "kind", t->lost[i]->error_kind);
        td_jw_cstr(w, "error", t->lost[i]->error);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_arr(w, "noise");
    for (i = 0; i < t->n_noise; i++) {
        const struct td_noise *z = &t->noise[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "of", i == 0 ? "baseline" : z->role == TD_LIVE ? "baseline-live" : "calibrate");
        td_jw_i64(w, "round", z->round);
        td_jw_i64(w, "prompts", (int64_t)z->prompts);
        td_jw_i64(w, "prompts_forked", (int64_t)z->forked);
        td_jw_i64(w, "answers", (int64_t)z->answers);
        td_jw_i64(w, "forks", (int64_t)z->forks);
        td_jw_num(w, "gap_max", z->gap_max);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

static void write_collapse(struct td_jw *w, const struct td_collapses *c)
{
    size_t i;

    td_jw_obj(w, "collapse");
    td_jw_i64(w, "answers", (int64_t)c->answers);
    td_jw_i64(w, "excused", (int64_t)c->excused);
    td_jw_arr(w, "collapsed");
    for (i = 0; i < c->n; i++) {
        const struct td_collapsed *f = &c->found[i];

        td_jw_obj(w, NULL);
        write_answer(w, f->group, f->bad);
        td_jw_cstr(w, "kind", td_collapse_name(f->what.kind));
        td_jw_i64(w, "position", f->what.position);
        td_jw_i64(w, "length", f->what.length);
        td_jw_i64(w, "period", f->what.period);
        td_jw_num(w, "strength", f->what.strength);
        td_jw_cstr(w, "why", f->what.why);
        if (f->good)
            write_around(w, "good", f->good, td_report_common_prefix(f->good, f->bad));
        write_around(w, "new", f->bad, f->good ? td_report_common_prefix(f->good, f->bad) : 0);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

static void write_op_error(struct td_jw *w, const char *key, const struct td_op_error *e)
{
    if (!e->present) {
        td_jw_null(w, key);
        return;
    }
    td_jw_obj(w, key);
    td_jw_num(w, "score", e->score);
    td_jw_num(w, "rel_l2", e->rel_l2);
    num_or_null(w, "r0_rel_l2", e->r0_rel_l2);
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

static void write_op(struct td_jw *w, const char *key, const struct td_judged_op *op)
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
    num_or_null(w, "format_cost", op->format_cost);
    td_jw_cstr(w, "act_rounding", op->act_rounding);
    td_jw_cstr(w, "baseline_rounding", td_op_baseline_rounding(op));
    td_jw_bool(w, "format_changed", op->format_changed);
    if (op->without_reference)
        num_or_null(w, "departs", op->departs);
    td_jw_i64(w, "equal", op->equal);
    td_jw_i64(w, "total", op->total);
    write_op_error(w, "recorded", &op->recorded);
    write_op_error(w, "baseline", &op->baseline);
    write_op_error(w, "candidate", &op->candidate);
    td_jw_end(w);
}

/* Of ops whose format changed, and of those that have no reference. */
static void write_group_extras(struct td_jw *w, const struct td_judged_group *g)
{
    td_jw_i64(w, "compared", (int64_t)g->compared);
    td_jw_i64(w, "compared_equal", (int64_t)g->compared_equal);
    td_jw_i64(w, "not_compared", (int64_t)g->not_compared);
    num_or_null(w, "departs", g->departs);
    td_jw_i64(w, "format_changed", (int64_t)g->format_changed);
    if (!g->format_changed)
        return;
    td_jw_cstr(w, "old_rounding", g->old_rounding);
    td_jw_cstr(w, "new_rounding", g->new_rounding);
    num_or_null(w, "old_r0_rel_l2", g->old_r0);
    num_or_null(w, "new_r0_rel_l2", g->new_r0);
}

static void write_coverage(struct td_jw *w, const struct td_coverage *c)
{
    td_jw_i64(w, "seen", c->seen);
    td_jw_i64(w, "unread_gemms", c->unread);
    td_jw_i64(w, "unread_graphs", c->graphs);
    td_jw_i64(w, "rested_ms", c->rested_ms);
    td_jw_bool(w, "extract", c->extract);
}

static void write_ops(struct td_jw *w, const struct td_weighing *x)
{
    const struct td_numerics *n = &x->numerics;
    size_t i;

    td_jw_obj(w, "ops");
    td_jw_i64(w, "judged", (int64_t)n->judged);
    td_jw_i64(w, "worse", (int64_t)n->worse);
    td_jw_i64(w, "undecided", (int64_t)n->undecided);
    td_jw_i64(w, "broken", (int64_t)n->broken);
    td_jw_i64(w, "bit_equal", (int64_t)n->bit_equal);
    td_jw_i64(w, "recorded", (int64_t)x->base_ops.n);
    write_coverage(w, &x->coverage);
    td_jw_i64(w, "format_changed", (int64_t)n->format_changed);
    td_jw_i64(w, "compared", (int64_t)n->compared);
    td_jw_i64(w, "compared_equal", (int64_t)n->compared_equal);
    td_jw_i64(w, "not_compared", (int64_t)n->not_compared);
    if (n->first_departs)
        write_op(w, "first_departs", n->first_departs);
    else
        td_jw_null(w, "first_departs");
    td_jw_cstr(w, "coverage", n->coverage);
    td_jw_arr(w, "groups");
    for (i = 0; i < n->n; i++) {
        const struct td_judged_group *g = &n->group[i];

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
        num_or_null(w, "new_score", g->new_score);
        num_or_null(w, "old_score", g->old_score);
        td_jw_num(w, "limit", g->limit);
        num_or_null(w, "new_rms", g->new_rms);
        num_or_null(w, "old_rms", g->old_rms);
        td_jw_num(w, "limit_rms", g->limit_rms);
        num_or_null(w, "new_rel_l2", g->new_rel);
        num_or_null(w, "old_rel_l2", g->old_rel);
        write_group_extras(w, g);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_arr(w, "not_ok"); /* one by one; those that are ok are counted in their group */
    for (i = 0; i < x->ops.n; i++)
        if (x->ops.op[i].status != TD_OP_NONE && x->ops.op[i].result != TD_RESULT_OK && x->ops.op[i].result != TD_RESULT_COMPARED)
            write_op(w, NULL, &x->ops.op[i]);
    td_jw_end(w);
    td_jw_end(w);
}

static void write_blame(struct td_jw *w, const struct td_weighing *x)
{
    const struct td_blame *b = &x->blame;
    int i;

    if (!x->blamed) {
        td_jw_null(w, "blame");
        return;
    }
    td_jw_obj(w, "blame");
    td_jw_cstr(w, "pattern", b->text);
    td_jw_i64(w, "bad", (int64_t)b->bad);
    td_jw_i64(w, "good", (int64_t)b->good);
    td_jw_i64(w, "bad_hit", (int64_t)b->rule.bad_hit);
    td_jw_i64(w, "good_hit", (int64_t)b->rule.good_hit);
    td_jw_arr(w, "same");
    for (i = 0; i < b->n_same; i++)
        td_jw_cstr(w, NULL, b->same_text[i]);
    td_jw_end(w);
    write_op(w, "first", b->first);
    if (b->first_nan)
        write_op(w, "first_nan", b->first_nan);
    else
        td_jw_null(w, "first_nan");
    td_jw_cstr(w, "prompt_id", *b->prompt_id ? b->prompt_id : NULL);
    td_jw_i64(w, "repeat", b->repeat);
    td_jw_i64(w, "position", b->position);
    td_jw_bool(w, "inferred", b->inferred);
    td_jw_arr(w, "among");
    for (i = 0; i < b->n_among; i++)
        td_jw_cstr(w, NULL, b->among[i]);
    td_jw_end(w);
    td_jw_end(w);
}

static void write_speed(struct td_jw *w, const struct td_speed *s)
{
    size_t i;

    td_jw_obj(w, "speed");
    td_jw_bool(w, "server_judged", s->server_judged);
    td_jw_i64(w, "rounds", s->rounds);
    td_jw_obj(w, "spread");
    for (i = 0; i < TD_OP_HOT; i++)
        td_jw_num(w, td_speed_metric_name((enum td_speed_metric)i), s->spread[i]);
    td_jw_end(w);
    td_jw_num(w, "alpha_row", s->alpha_row);
    td_jw_arr(w, "rows");
    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "metric", td_speed_metric_name(r->metric));
        td_jw_cstr(w, "what", r->label);
        td_jw_bool(w, "total", r->total);
        td_jw_cstr(w, "unit", r->metric == TD_THROUGHPUT ? "tok/s" : "ns");
        num_or_null(w, "old", r->base);
        num_or_null(w, "new", r->now);
        num_or_null(w, "slower", r->effect.est);
        num_or_null(w, "lo", r->effect.reached ? r->effect.lo : NAN);
        num_or_null(w, "hi", r->effect.reached ? r->effect.hi : NAN);
        td_jw_i64(w, "n", (int64_t)r->pairs.n);
        td_jw_cstr(w, "verdict", td_verdict_name(r->verdict));
        td_jw_bool(w, "faster", r->faster);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

int td_report_json(const struct td_weighing *x, const char *path, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(REPORT_MAX), line = TD_BUF_INIT(1 << 16);
    struct td_jw w;
    int rc;

    td_report_verdict_line(x, &line);
    td_jw_init(&w, &b, true);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "schema", SCHEMA);
    td_jw_cstr(&w, "tool", "tapedeck differ " TD_VERSION);
    td_jw_cstr(&w, "verdict", td_verdict_name(x->verdict == TD_NOT_JUDGED ? TD_INCONCLUSIVE : x->verdict));
    td_jw_i64(&w, "exit", td_verdict_exit(x->verdict));
    td_jw_str(&w, "line", td_buf_str(&line), line.len);
    write_sides(&w, x);
    write_lanes(&w, x);
    write_tokens(&w, &x->tokens);
    write_collapse(&w, &x->collapses);
    td_report_json_scores(&w, &x->rescore);
    write_ops(&w, x);
    write_blame(&w, x);
    write_speed(&w, &x->speed);
    td_policy_write(&x->policy, &w, "policy");
    td_jw_end(&w);
    td_buf_addc(&b, '\n');
    rc = b.failed ? td_fail(err, TD_ELIMIT, "%s: the report would pass %zu bytes", path, REPORT_MAX)
                  : td_fs_write_atomic(path, b.data, b.len, err);
    td_buf_release(&b);
    td_buf_release(&line);
    return rc;
}
