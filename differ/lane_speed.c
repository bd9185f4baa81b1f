/* lane_speed.c - the lane "speed": is the candidate slower than the baseline?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/comparison.h"
#include "differ/report_verdict.h"
#include "differ/speed_clocks.h"
#include "differ/speed_ops.h"
#include "differ/speed_server.h"

#define ROWS_SHOWN 10 /* rows of ops in the text report, without --verbose */

/* ---- measurement ----------------------------------------------------------------------------- */

/* The level of one row, so that all rows together keep the policy's level. */
static double level_of_row(const struct td_speed *s, const struct td_policy *policy)
{
    size_t i, rows = 0;

    for (i = 0; i < s->n; i++)
        rows += td_speed_metric_is_op(s->row[i].metric) || s->server_judged;
    return policy->speed_alpha / (double)(rows ? rows : 1);
}

int td_speed_compare(const struct td_judged_ops *candidate, const struct td_groups *g,
                     const struct td_policy *policy, struct td_speed *s, struct td_error *err)
{
    size_t i;
    int rc;

    memset(s, 0, sizeof *s);
    s->itl = NAN;
    for (i = 0; i < TD_N_METRICS; i++)
        s->spread[i] = policy->start_spread;
    rc = td_speed_ops(candidate, s, err);
    if (!rc)
        rc = td_speed_server(g, s, err);
    if (rc)
        return rc;
    s->alpha_row = level_of_row(s, policy);
    for (i = 0; i < s->n; i++) {
        struct td_speed_row *r = &s->row[i];

        if (td_speed_metric_is_op(r->metric)) {
            td_speed_decide(r, s->alpha_row, policy->ops_effect, policy->ops_noise);
        } else {
            td_speed_decide(r, s->server_judged ? s->alpha_row : policy->speed_alpha,
                            policy->server_effect, s->spread[r->metric]);
            if (!s->server_judged)
                r->verdict = TD_NOT_JUDGED;
        }
        if (r->metric == TD_ITL && r->total)
            s->itl = r->effect.est;
    }
    return TD_OK;
}

/* ---- verdict --------------------------------------------------------------------------------- */

/* If a total slowdown of policy->detect could have gone unseen in this row: how many pairs would
 * show it, roughly. Else 0. */
static size_t pairs_needed(const struct td_speed_row *r, const struct td_policy *policy)
{
    double room = policy->detect - fmax(r->effect.est, 0), half;

    if (r->verdict == TD_REGRESSED || (r->effect.reached && r->effect.hi <= policy->detect))
        return 0;
    if (!r->effect.reached)
        return r->pairs.n * 2 > 20 ? r->pairs.n * 2 : 20;
    half = (r->effect.hi - r->effect.lo) / 2;
    room = fmax(room, policy->detect / 4);
    return (size_t)ceil((double)r->pairs.n * (half / room) * (half / room)) + 1;
}

static void judge_rows(const struct td_speed *s, const struct td_policy *policy, bool ops,
                       struct td_lane *lane)
{
    const struct td_speed_row *worst = NULL;
    size_t i, rows = 0, slower = 0, faster = 0;

    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];
        size_t need;

        if (td_speed_metric_is_op(r->metric) != ops)
            continue;
        rows++;
        faster += r->faster;
        if (r->verdict == TD_REGRESSED) {
            slower++;
            if (!worst || r->effect.lo > worst->effect.lo)
                worst = r;
        }
        need = r->total ? pairs_needed(r, policy) : 0;
        if (need)
            td_lane_note(lane, TD_INCONCLUSIVE,
                         "%s: %zu pairs cannot exclude a slowdown of %.0f %%; about %zu are needed",
                         td_speed_metric_name(r->metric), r->pairs.n, policy->detect * 100, need);
    }
    if (worst)
        td_lane_note(
            lane, TD_REGRESSED,
            "%zu of %zu rows are slower; most certain: %s %s by %+.1f %% [%+.1f, %+.1f] n=%zu",
            slower, rows, worst->label, td_speed_metric_name(worst->metric),
            worst->effect.est * 100, worst->effect.lo * 100, worst->effect.hi * 100,
            worst->pairs.n);
    else
        td_lane_note(
            lane, TD_PASS, "%s: no slowdown over %.0f %% beyond %.0f %% of noise in %zu rows",
            ops ? "ops" : "server", (ops ? policy->ops_effect : policy->server_effect) * 100,
            (ops ? policy->ops_noise : policy->start_spread) * 100, rows);
    for (i = 0; i < TD_OP_HOT && !ops; i++)
        if (s->spread[i] > policy->start_spread)
            td_lane_note(lane, TD_NOT_JUDGED,
                         "%s: rounds of the baseline differ by %.0f %% among themselves, which "
                         "counts as noise",
                         td_speed_metric_name((enum td_speed_metric)i), s->spread[i] * 100);
    if (faster)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu rows are faster", faster);
}

void td_speed_judge(const struct td_speed *s, const struct td_policy *policy, struct td_lane *lane)
{
    if (s->op_pairs)
        judge_rows(s, policy, true, lane);
    if (s->server_judged)
        judge_rows(s, policy, false, lane);
    else if (s->server_pairs && !s->op_pairs)
        td_lane_no_evidence(lane, "one server against an older recording is information; "
                                  "--baseline-server runs both in turn");
    else if (s->server_pairs)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "the server's speed is information; --baseline-server runs both in turn");
    if (!s->op_pairs && !s->server_pairs && !s->uneven)
        td_lane_no_evidence(lane, "no timings of both builds (ops: --baseline-build LIB; servers: "
                                  "--baseline-server HOST:PORT)");
    td_speed_clocks_judge(s, lane);
}

static int measure_speed(struct td_comparison *c, void *measured, struct td_error *err)
{
    return td_speed_compare(&c->ops, &c->groups, &c->policy, measured, err);
}

static void release_speed(void *measured)
{
    td_speed_release(measured);
}

static bool has_timings(const void *measured)
{
    const struct td_speed *s = measured;

    return s->op_pairs > 0 || s->server_judged;
}

static void judge_speed(const struct td_comparison *c, struct td_lane *lane)
{
    td_speed_judge(lane->measured, &c->policy, lane);
}

/* The inter-token latency stands in the verdict line of answers, too: then it is information. */
static void add_latency(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    const bool asked = c->lane[TD_LANE_SPEED].asked;

    if (!isnan(s->itl) && (asked || c->lane[TD_LANE_TOKENS].asked))
        td_buf_addf(line, " itl=%+.1f%%%s", s->itl * 100,
                    s->server_judged && asked ? "" : "(info)");
}

static void add_slower_ops(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    size_t i, slower = 0, rows = 0;

    if (!c->lane[TD_LANE_SPEED].asked || !s->op_pairs)
        return;
    for (i = 0; i < s->n; i++) {
        rows += !s->row[i].total;
        slower += !s->row[i].total && s->row[i].verdict == TD_REGRESSED;
    }
    td_buf_addf(line, " slower=%zu/%zu", slower, rows);
}

/* ---- text report ----------------------------------------------------------------------------- */

static const char *value_words(enum td_speed_metric m, double v, char *out, size_t n)
{
    if (isnan(v))
        snprintf(out, n, "-");
    else if (m == TD_THROUGHPUT)
        snprintf(out, n, "%.1f tok/s", v);
    else if (v >= 1e6)
        snprintf(out, n, "%.2f ms", v / 1e6);
    else
        snprintf(out, n, "%.2f us", v / 1e3);
    return out;
}

/* Totals first, then by how much slower. */
static int by_slowdown(const void *a, const void *b)
{
    const struct td_speed_row *p = *(const struct td_speed_row *const *)a,
                              *q = *(const struct td_speed_row *const *)b;

    if (p->total != q->total)
        return p->total ? -1 : 1;
    if ((p->verdict == TD_REGRESSED) != (q->verdict == TD_REGRESSED))
        return p->verdict == TD_REGRESSED ? -1 : 1;
    if (p->metric != q->metric && (p->metric < TD_OP_HOT || q->metric < TD_OP_HOT || p->total))
        return p->metric < q->metric ? -1 : 1;
    return (p->effect.est < q->effect.est) - (p->effect.est > q->effect.est);
}

static void print_speed_row(const struct td_page *p, const struct td_speed_row *r, int label)
{
    char a[32], b[32], interval[48] = "too few pairs";
    bool op = td_speed_metric_is_op(r->metric); /* many sizes in a row: two medians would mislead */

    if (r->effect.reached)
        snprintf(interval, sizeof interval, "[%+.1f %%, %+.1f %%]", r->effect.lo * 100,
                 r->effect.hi * 100);
    fprintf(p->out, "  %-14s  %-*s  %12s  %12s  %+6.1f %%  %-19s %5zu  ",
            td_speed_metric_name(r->metric), label, r->label,
            value_words(r->metric, r->base, a, sizeof a),
            op ? "" : value_words(r->metric, r->now, b, sizeof b), r->effect.est * 100, interval,
            r->pairs.n);
    td_page_verdict(p, r->verdict,
                    r->verdict == TD_REGRESSED                 ? "slower"
                    : r->faster && r->verdict != TD_NOT_JUDGED ? "faster"
                                                               : "",
                    0);
    fprintf(p->out, "\n");
}

static void print_speed(const struct td_comparison *c, const struct td_page *p)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    const struct td_speed_row **rows;
    size_t i, n_shown = 0, n_ops = 0;
    int label = 8;

    if (s->n == 0 || (!c->lane[TD_LANE_SPEED].asked && !c->lane[TD_LANE_TOKENS].asked))
        return;
    rows = malloc(s->n * sizeof(*rows));
    if (!rows)
        return;
    for (i = 0; i < s->n; i++) {
        rows[i] = &s->row[i];
        label = (int)strlen(s->row[i].label) > label ? (int)strlen(s->row[i].label) : label;
    }
    qsort(rows, s->n, sizeof(*rows), by_slowdown);
    td_page_title(p, s->server_judged || s->op_pairs
                         ? "speed (+ is slower; all intervals hold together)"
                         : "speed (+ is slower; information, see lanes)");
    fprintf(p->out, "  %-14s  %-*s  %12s  %12s  %8s  %-19s %5s\n", "", label, "what", "old", "new",
            "slower", "interval", "n");
    for (i = 0; i < s->n; i++) {
        bool op = td_speed_metric_is_op(rows[i]->metric),
             shown = p->verbose || rows[i]->total || (op ? n_ops < ROWS_SHOWN : s->server_judged);

        n_ops += op && shown;
        n_shown += shown;
        if (shown)
            print_speed_row(p, rows[i], label);
    }
    if (n_shown < s->n)
        fprintf(p->out, "  (%zu of %zu rows shown; --verbose shows all)\n", n_shown, s->n);
    free(rows);
}

/* ---- JSON and JUnit -------------------------------------------------------------------------- */

static void write_speed(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
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
        td_jw_num_or_null(w, "old", r->base);
        td_jw_num_or_null(w, "new", r->now);
        td_jw_num_or_null(w, "slower", r->effect.est);
        td_jw_num_or_null(w, "lo", r->effect.reached ? r->effect.lo : NAN);
        td_jw_num_or_null(w, "hi", r->effect.reached ? r->effect.hi : NAN);
        td_jw_i64(w, "n", (int64_t)r->pairs.n);
        td_jw_cstr(w, "verdict", td_verdict_name(r->verdict));
        td_jw_bool(w, "faster", r->faster);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

static void add_speed_cases(const struct td_comparison *c, struct td_junit *junit)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    char name[200], why[200];
    size_t i;

    for (i = 0; i < s->n && c->lane[TD_LANE_SPEED].asked; i++) {
        const struct td_speed_row *r = &s->row[i];

        snprintf(name, sizeof name, "%s %s", td_speed_metric_name(r->metric), r->label);
        snprintf(why, sizeof why, "%+.1f %% [%+.1f, %+.1f] n=%zu", r->effect.est * 100,
                 r->effect.lo * 100, r->effect.hi * 100, r->pairs.n);
        td_junit_verdict(junit, "speed", name, r->verdict, why);
    }
}

const struct td_lane_type td_lane_speed = {
    .judges = TD_REPLAYED_PAIRS,
    .measured_size = sizeof(struct td_speed),
    .measure = measure_speed,
    .release = release_speed,
    .has_evidence = has_timings,
    .judge = judge_speed,
    .print_details = print_speed,
    .add_answer_figures = add_latency,
    .add_op_figures = add_slower_ops,
    .write_json = write_speed,
    .add_cases = add_speed_cases,
};
