/* report_speed.c - rows of speed in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_speed.h"

#include <math.h>

#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/speed.h"
#include "differ/speed_ops.h"
#include "differ/speed_others.h"

/* The change as a person reads it: of a time + is slower, of a throughput - is. */
static void write_change(struct td_jw *w, const struct td_speed_row *r)
{
    const struct td_interval *e = &r->effect;
    const bool rate = r->metric == TD_THROUGHPUT;

    td_jw_num_or_null(w, "change", rate ? 1 / (1 + e->est) - 1 : e->est);
    td_jw_num_or_null(w, "change_lo", !e->reached ? NAN : rate ? 1 / (1 + e->hi) - 1 : e->lo);
    td_jw_num_or_null(w, "change_hi", !e->reached ? NAN : rate ? 1 / (1 + e->lo) - 1 : e->hi);
}

static void write_blocks(struct td_jw *w, const struct td_speed *s)
{
    size_t i;

    td_jw_arr(w, "others");
    for (i = 0; i < s->n_blocks; i++) {
        const struct td_speed_block *b = &s->block[i];
        const bool known = !*b->others.unknown;

        td_jw_obj(w, NULL);
        td_jw_i64(w, "round", b->round + 1);
        td_jw_cstr(w, "side", b->is_baseline ? "baseline" : "candidate");
        td_jw_num_or_null(w, "cores", known ? b->others.cores : NAN);
        td_jw_num_or_null(w, "of", known ? b->others.of : NAN);
        td_jw_num_or_null(w, "waited", known && b->others.waited >= 0 ? b->others.waited : NAN);
        td_jw_cstr(w, "unknown", known ? NULL : b->others.unknown);
        td_jw_bool(w, "left_out", b->left_out);
        td_jw_end(w);
    }
    td_jw_end(w);
}

static double least_alpha(const struct td_speed *s)
{
    double least = 1;

    for (size_t i = 0; i < s->n; i++)
        least = fmin(least, s->row[i].alpha);
    return least;
}

void td_speed_write_json(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    size_t i;

    td_jw_obj(w, "speed");
    td_jw_bool(w, "server_judged", s->server_judged);
    td_jw_i64(w, "rounds", s->rounds);
    td_jw_i64(w, "whole_rounds", s->whole);
    td_jw_i64(w, "starts", (int64_t)s->starts);
    td_jw_cstr(w, "other_host", *s->other_host ? s->other_host : NULL);
    write_blocks(w, s);
    td_jw_i64(w, "rounds_needed", (int64_t)s->rounds_needed);
    td_jw_obj(w, "spread");
    for (i = 0; i < TD_OP_HOT; i++)
        td_jw_num(w, td_speed_metric_name((enum td_speed_metric)i), c->policy.start_spread);
    td_jw_end(w);
    td_jw_num(w, "alpha_row", least_alpha(s));
    td_jw_arr(w, "rows");
    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "metric", td_speed_metric_name(r->metric));
        td_jw_cstr(w, "what", r->label);
        td_jw_bool(w, "total", r->total);
        td_jw_cstr(w, "unit", r->metric == TD_THROUGHPUT ? "tok/s" : "ns");
        td_jw_num_or_null(w, "old", r->base);
        td_jw_num_or_null(w, "new", r->now);
        td_jw_num_or_null(w, "slower", r->effect.est);
        td_jw_num_or_null(w, "lo", r->effect.reached ? r->effect.lo : NAN);
        td_jw_num_or_null(w, "hi", r->effect.reached ? r->effect.hi : NAN);
        write_change(w, r);
        td_jw_i64(w, "n", (int64_t)r->pairs.n);
        td_jw_num(w, "alpha", r->alpha);
        td_jw_cstr(w, "verdict", td_verdict_name(r->verdict));
        td_jw_bool(w, "faster", r->faster);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

/* The total of a metric; NULL: there is none. */
static const struct td_speed_row *total_of(const struct td_speed *s, enum td_speed_metric m)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->row[i].total && s->row[i].metric == m)
            return &s->row[i];
    return NULL;
}

/* What is judged comes first: servers in turn, then ops; an old recording's times come last. */
void td_speed_write_change(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    const struct td_speed_row *ops = total_of(s, TD_OP_HOT), *itl = total_of(s, TD_ITL), *r;

    r = s->server_judged || !ops ? itl : ops;
    td_jw_num_or_null(w, "speed_change", r ? r->effect.est : NAN);
    td_jw_cstr(w, "speed_of",
               !r                 ? NULL
               : r == ops         ? "kernel time"
               : s->by_starts     ? "ITL against the recorded starts"
               : s->rounds >= TD_SPEED_ROUNDS_LEAST ? "ITL"
                                                    : "ITL against a recording");
}

/* ---- the lane in one line -------------------------------------------------------------------- */

static void add_effect(struct td_buf *out, const struct td_interval *e, double limit)
{
    td_buf_addf(out, "%+.1f %% [%+.1f, %+.1f], limit %+.3g %%", e->est * 100, e->lo * 100,
                e->hi * 100, limit * 100);
}

void td_speed_headline(const struct td_comparison *c, struct td_buf *out)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    const struct td_speed_row *worst = NULL;
    size_t i, slower = 0, rows = 0;

    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];

        rows += !r->total && r->verdict != TD_NOT_JUDGED;
        slower += !r->total && r->verdict == TD_REGRESSED;
        if (r->verdict == TD_REGRESSED &&
            (!worst || r->total > worst->total ||
             (r->total == worst->total && r->effect.lo > worst->effect.lo)))
            worst = r;
    }
    if (!worst || c->lane[TD_LANE_SPEED].verdict != TD_REGRESSED)
        return;
    td_buf_addf(out, "%s%s%s ", td_speed_metric_name(worst->metric), worst->total ? "" : " of ",
                worst->total ? ", total:" : worst->label);
    add_effect(out, &worst->effect,
               td_speed_metric_is_op(worst->metric) ? td_speed_ops_effect(worst, &c->policy) : c->policy.server_effect);
    if (slower)
        td_buf_addf(out, "; %zu of %zu row%s %s slower", slower, rows,
                    td_plural((int64_t)rows), td_is((int64_t)slower));
    else
        td_buf_adds(out, "; no single row is for certain");
}
