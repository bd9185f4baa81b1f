/* speed.c - decide rows of paired timings, and say what the speed lane makes of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *td_speed_metric_name(enum td_speed_metric m)
{
    static const char *const NAMES[TD_N_METRICS] = {"ttft", "itl", "e2e", "throughput", "op, hot cache", "op, cold cache"};

    return NAMES[m];
}

static bool is_op(enum td_speed_metric m)
{
    return m == TD_OP_HOT || m == TD_OP_COLD;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

struct td_speed_row *td_speed_row(struct td_speed *s, enum td_speed_metric m, const char *label, bool total)
{
    struct td_speed_row *r;
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->row[i].metric == m && s->row[i].total == total && strcmp(s->row[i].label, label) == 0)
            return &s->row[i];
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 32;
        struct td_speed_row *grown = realloc(s->row, cap * sizeof *grown);

        if (!grown)
            return NULL;
        s->row = grown;
        s->cap = cap;
    }
    r = &s->row[s->n];
    *r = (struct td_speed_row){.metric = m, .total = total, .label = strdup(label)};
    s->n += r->label != NULL;
    return r->label ? r : NULL;
}

int td_ratios_add(struct td_ratios *r, double base, double now, bool larger_is_faster)
{
    if (!(base > 0 && now > 0 && isfinite(base) && isfinite(now)))
        return TD_OK;
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        double *a = realloc(r->log_ratio, cap * sizeof *a), *b, *c;

        if (a)
            r->log_ratio = a;
        b = realloc(r->base, cap * sizeof *b);
        if (b)
            r->base = b;
        c = realloc(r->now, cap * sizeof *c);
        if (c)
            r->now = c;
        if (!a || !b || !c)
            return TD_ENOMEM;
        r->cap = cap;
    }
    r->log_ratio[r->n] = larger_is_faster ? log(base / now) : log(now / base);
    r->base[r->n] = base;
    r->now[r->n++] = now;
    return TD_OK;
}

void td_speed_release(struct td_speed *s)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        free(s->row[i].label);
        free(s->row[i].pairs.log_ratio);
        free(s->row[i].pairs.base);
        free(s->row[i].pairs.now);
    }
    free(s->row);
    memset(s, 0, sizeof *s);
}

/* ---- deciding ------------------------------------------------------------------------------------------------------ */

void td_speed_decide(struct td_speed_row *row, double alpha, double effect, double noise)
{
    const struct td_ratios *p = &row->pairs;
    struct td_interval *e = &row->effect;
    /* a total may be made of faster and slower ones */
    bool agreed = row->ops == 0 || row->total || (row->ops >= 2 && row->starts_slower * 4 >= row->starts * 3);

    *e = td_stat_hodges_lehmann(p->log_ratio, p->n, alpha);
    e->est = expm1(e->est);
    e->lo = expm1(e->lo);
    e->hi = expm1(e->hi);
    row->base = td_stat_median(p->base, p->n);
    row->now = td_stat_median(p->now, p->n);
    row->verdict = TD_NOT_JUDGED;
    row->faster = false;
    if (!e->reached)
        return;
    row->verdict = e->est > effect && e->lo > noise && agreed ? TD_REGRESSED : TD_PASS;
    row->faster = e->est < -effect && e->hi < -noise;
}

static double row_alpha(const struct td_speed *s, const struct td_policy *policy)
{
    size_t i, rows = 0;

    for (i = 0; i < s->n; i++)
        rows += is_op(s->row[i].metric) || s->server_judged;
    return policy->speed_alpha / (double)(rows ? rows : 1);
}

int td_speed_compare(const struct td_op_set *candidate, const struct td_groups *g, const struct td_policy *policy,
                     struct td_speed *s, struct td_error *err)
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
    s->alpha_row = row_alpha(s, policy);
    for (i = 0; i < s->n; i++) {
        struct td_speed_row *r = &s->row[i];

        if (is_op(r->metric)) {
            td_speed_decide(r, s->alpha_row, policy->ops_effect, policy->ops_noise);
        } else {
            td_speed_decide(r, s->server_judged ? s->alpha_row : policy->speed_alpha, policy->server_effect, s->spread[r->metric]);
            if (!s->server_judged)
                r->verdict = TD_NOT_JUDGED;
        }
        if (r->metric == TD_ITL && r->total)
            s->itl = r->effect.est;
    }
    return TD_OK;
}

/* ---- the lane ------------------------------------------------------------------------------------------------------ */

/* Could a total slowdown of policy->detect have hidden in this row? Then about so many pairs would do; else 0. */
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

static void judge_rows(const struct td_speed *s, const struct td_policy *policy, bool ops, struct td_lane *lane)
{
    const struct td_speed_row *worst = NULL;
    size_t i, rows = 0, slower = 0, faster = 0;

    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];
        size_t need;

        if (is_op(r->metric) != ops)
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
            td_lane_say(lane, TD_INCONCLUSIVE, "%s: %zu pairs cannot exclude a slowdown of %.0f %%; about %zu would do",
                        td_speed_metric_name(r->metric), r->pairs.n, policy->detect * 100, need);
    }
    if (worst)
        td_lane_say(lane, TD_REGRESSED, "%zu of %zu rows are slower; surest: %s %s by %+.1f %% [%+.1f, %+.1f] n=%zu", slower, rows,
                    worst->label, td_speed_metric_name(worst->metric), worst->effect.est * 100, worst->effect.lo * 100,
                    worst->effect.hi * 100, worst->pairs.n);
    else
        td_lane_say(lane, TD_PASS, "%s: no slowdown over %.0f %% beyond %.0f %% of noise in %zu rows", ops ? "ops" : "server",
                    (ops ? policy->ops_effect : policy->server_effect) * 100, (ops ? policy->ops_noise : policy->start_spread) * 100, rows);
    for (i = 0; i < TD_OP_HOT && !ops; i++)
        if (s->spread[i] > policy->start_spread)
            td_lane_say(lane, TD_NOT_JUDGED, "%s: rounds of the baseline differ by %.0f %% among themselves, which is taken as noise",
                        td_speed_metric_name((enum td_speed_metric)i), s->spread[i] * 100);
    if (faster)
        td_lane_say(lane, TD_NOT_JUDGED, "%zu rows are faster", faster);
}

void td_speed_judge(const struct td_speed *s, const struct td_policy *policy, struct td_lane *lane)
{
    if (s->op_pairs)
        judge_rows(s, policy, true, lane);
    if (s->server_judged)
        judge_rows(s, policy, false, lane);
    else if (s->server_pairs && !s->op_pairs)
        td_lane_no_evidence(lane, "one server against a recording of another day is information; --baseline-server runs both in turn");
    else if (s->server_pairs)
        td_lane_say(lane, TD_NOT_JUDGED, "the server's speed is information; --baseline-server runs both in turn");
    if (!s->op_pairs && !s->server_pairs && !s->uneven)
        td_lane_no_evidence(lane, "no timings of both builds (ops: --baseline-build LIB; servers: --baseline-server HOST:PORT)");
    td_speed_clocks_say(s, lane);
}
