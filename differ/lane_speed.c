/* lane_speed.c - the lane "speed": is the candidate slower than the baseline?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/report_speed.h"
#include "differ/speed_clocks.h"
#include "differ/speed_ops.h"
#include "differ/speed_others.h"
#include "differ/speed_server.h"
#include "differ/speed_starts.h"

#define ROWS_SHOWN 10 /* rows of ops in the text report, without --verbose */

/* ---- measurement ----------------------------------------------------------------------------- */

/* How many rows are judged: of ops, totals of servers, others of servers. */
struct rows { size_t ops, totals, others; };

static struct rows count_rows(const struct td_speed *s)
{
    struct rows n = {0};
    size_t i;

    for (i = 0; i < s->n; i++)
        if (td_speed_metric_is_op(s->row[i].metric))
            n.ops++;
        else if (s->server_judged && s->row[i].total)
            n.totals++;
        else if (s->server_judged)
            n.others++;
    return n;
}

/* The level of one row, so that all rows together keep the policy's level. Servers in turn have half of it beside ops, and their
 * totals half of theirs: a total is asked to exclude a slowdown, and has few samples. gate may look TD_SPEED_LOOKS times. */
static double level_of_row(const struct td_speed *s, const struct td_speed_row *r, const struct rows *n, const struct td_policy *policy)
{
    const double all = policy->speed_alpha, part = n->ops && n->totals ? all / 2 : all;

    if (s->by_starts || !s->server_judged)
        return all / (double)(n->ops + n->totals + n->others ? n->ops + n->totals + n->others : 1);
    if (td_speed_metric_is_op(r->metric))
        return part / (double)n->ops;
    return part / TD_SPEED_LOOKS / (n->others ? 2 : 1) / (double)(r->total ? n->totals : n->others);
}

static int copy_blocks(const struct td_speed_block *block, size_t n, struct td_speed *s)
{
    s->block = n ? malloc(n * sizeof *block) : NULL;
    if (!s->block)
        return n ? TD_ENOMEM : TD_OK;
    memcpy(s->block, block, n * sizeof *block);
    s->n_blocks = n;
    return TD_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* If a total slowdown of policy->detect could have gone unseen in this row: how many samples would
 * show it, roughly; more than there are. Else 0. The way from the estimate to the upper end of its
 * interval has to shrink to the room that is left below `detect`. */
static size_t samples_needed(const struct td_speed_row *r, const struct td_policy *policy)
{
    const size_t more = larger(r->pairs.n * 2, 20);
    double room = policy->detect - fmax(r->effect.est, 0), half, need;

    if (r->verdict == TD_REGRESSED || (r->effect.reached && r->effect.hi <= policy->detect))
        return 0;
    if (!r->effect.reached)
        return larger(r->pairs.n + 1, td_stat_signed_rank_need(r->alpha));
    half = r->effect.hi - r->effect.est;
    room = fmax(room, policy->detect / 4);
    need = ceil((double)r->pairs.n * (half / room) * (half / room)) + 1;
    return need > (double)r->pairs.n && need < 1e6 ? (size_t)need : more;
}

/* The rounds that all totals of the servers need, of which some may be left out; 0: there are enough. */
static size_t rounds_needed(const struct td_speed *s, const struct td_policy *policy)
{
    const size_t rounds = (size_t)s->rounds, used = rounds - (size_t)(s->left_out + s->whole);
    size_t i, most = 0;

    if (s->by_starts || s->rounds < TD_SPEED_ROUNDS_LEAST || *s->client_limited)
        return 0;
    if (!s->server_judged)
        return 2 * rounds;
    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];

        if (r->total && !td_speed_metric_is_op(r->metric))
            most = larger(most, samples_needed(r, policy));
    }
    if (most && most <= used) /* some rounds have no pair of that metric */
        return 2 * rounds;
    return most ? most + (size_t)(s->left_out + s->whole) : 0;
}

int td_speed_compare(const struct td_judged_ops *candidate, const struct td_groups *g, const cJSON *base, const cJSON *now,
                     const struct td_speed_block *block, size_t n_blocks, const struct td_policy *policy, struct td_speed *s,
                     struct td_error *err)
{
    struct rows rows;
    size_t i;
    int rc;

    memset(s, 0, sizeof *s);
    s->itl = NAN;
    if (base && now)
        td_speed_starts_find(base, now, policy->others, s);
    rc = copy_blocks(block, n_blocks, s) ? td_fail(err, TD_ENOMEM, "no memory for timings") : td_speed_ops(candidate, s, err);
    if (!rc)
        rc = td_speed_server(g, policy, s, err);
    if (rc)
        return rc;
    rows = count_rows(s);
    for (i = 0; i < s->n; i++) {
        struct td_speed_row *r = &s->row[i];

        r->alpha = level_of_row(s, r, &rows, policy);
        if (td_speed_metric_is_op(r->metric)) {
            td_speed_decide(r, td_speed_ops_effect(r, policy), td_speed_ops_noise(r, policy));
        } else if (s->by_starts) {
            td_speed_starts_decide(r, policy->server_effect);
        } else {
            td_speed_decide(r, policy->server_effect, policy->start_spread);
            if (!s->server_judged)
                r->verdict = TD_NOT_JUDGED;
        }
        if (r->metric == TD_ITL && r->total)
            s->itl = r->effect.est;
    }
    s->rounds_needed = rounds_needed(s, policy);
    return TD_OK;
}

/* ---- verdict --------------------------------------------------------------------------------- */

/* What is slower, and by how much. A total may be slower where no row of its own is certain. */
static void note_slower(struct td_lane *lane, const struct td_speed_row *worst, size_t slower,
                        size_t rows)
{
    char how[80];

    if (slower)
        snprintf(how, sizeof how, "%zu of %zu row%s %s slower; most certain:", slower, rows,
             td_plural((int64_t)rows), td_is((int64_t)slower));
    else
        snprintf(how, sizeof how, "slower in total, though no single row is for certain:");
    td_lane_note(lane, TD_REGRESSED, "%s %s %s by %+.1f %% [%+.1f, %+.1f] n=%zu", how, worst->label,
                 td_speed_metric_name(worst->metric), worst->effect.est * 100,
                 worst->effect.lo * 100, worst->effect.hi * 100, worst->pairs.n);
}

static void judge_rows(const struct td_speed *s, const struct td_policy *policy, bool ops,
                       struct td_lane *lane)
{
    const struct td_speed_row *worst = NULL;
    double effect = policy->server_effect, noise = policy->start_spread;
    size_t i, rows = 0, judged = 0, slower = 0, faster = 0, unsure = 0;

    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];
        size_t need;

        if (td_speed_metric_is_op(r->metric) != ops)
            continue;
        if (ops) { /* as of the others: a replay times all ops in one way */
            effect = td_speed_ops_effect(r, policy);
            noise = td_speed_ops_noise(r, policy);
        }
        rows += !r->total;
        judged += !r->total && r->verdict != TD_NOT_JUDGED;
        faster += r->faster && !r->total;
        slower += r->verdict == TD_REGRESSED && !r->total;
        if (r->verdict == TD_REGRESSED) {
            if (!worst || r->effect.lo > worst->effect.lo)
                worst = r;
        }
        need = r->total ? samples_needed(r, policy) : 0;
        unsure += need > 0;
        if (need)
            td_lane_note(lane, TD_INCONCLUSIVE,
                         "%s: %zu %s cannot exclude a slowdown of %.3g %%; about %zu are needed",
                         td_speed_metric_name(r->metric), r->pairs.n, ops ? "starts" : "rounds",
                         policy->detect * 100, ops ? need : need + (size_t)(s->whole + s->left_out));
    }
    if (worst)
        note_slower(lane, worst, slower, rows);
    else if (!unsure)
        td_lane_note(
            lane, TD_PASS,
            "%s: no slowdown over %.3g %% beyond %.3g %% of noise in their total, nor in the %zu of "
            "%zu rows that have enough %s",
            ops ? "ops" : "server", effect * 100, noise * 100, judged, rows, ops ? "pairs" : "rounds");
    if (faster)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu row%s %s faster", faster,
                     td_plural((int64_t)faster), td_is((int64_t)faster));
}

/* The server against the starts of a recording. That these are too few to show much is said, and makes the lane inconclusive where
 * the user named it. */
static void judge_starts(const struct td_speed *s, const struct td_policy *policy, struct td_lane *lane)
{
    const struct td_speed_row *worst = NULL;
    size_t i, rows = 0, slower = 0, need = 0;
    char total[80] = "";

    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];

        if (td_speed_metric_is_op(r->metric))
            continue;
        rows += !r->total;
        slower += r->verdict == TD_REGRESSED && !r->total;
        if (r->verdict == TD_REGRESSED && (!worst || r->effect.lo > worst->effect.lo))
            worst = r;
        if (!r->total)
            continue;
        need = larger(need, td_speed_starts_needed(r, policy->detect));
        if (r->metric == TD_ITL)
            snprintf(total, sizeof total, "; ITL %+.1f %% [%+.1f, %+.1f]", r->effect.est * 100,
                     r->effect.lo * 100, r->effect.hi * 100);
    }
    if (worst)
        note_slower(lane, worst, slower, rows);
    else
        td_lane_note(lane, TD_PASS, "server: no slowdown over %.0f %% beyond what %zu recorded starts differ by, in total nor in %zu rows%s",
                     policy->server_effect * 100, s->starts, rows, total);
    if (need)
        td_lane_no_evidence(lane, "%zu starts cannot show each slowdown of %.0f %%; %s %zu are needed (record --starts)", s->starts,
                            policy->detect * 100, need < TD_SPEED_STARTS_MOST ? "about" : "more than", need);
}

/* What other programs did beside the servers whose speed is judged, or would be. */
static void note_others(const struct td_speed *s, struct td_lane *lane)
{
    if (s->left_out && !s->server_judged)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the servers' speed is not judged: %s; rounds so disturbed: %d of %d: stop those programs, or give more --rounds",
                     s->disturbed, s->left_out, s->rounds - s->whole);
    else if (s->left_out)
        td_lane_note(lane, TD_NOT_JUDGED, "%d of %d rounds of both servers %s left out: %s", s->left_out, s->rounds - s->whole, td_is(s->left_out), s->disturbed);
    if (*s->others_unknown && s->server_judged)
        td_lane_note(lane, TD_NOT_JUDGED, "what other programs took of the machine is not known: %s; where they slowed one server alone, that counts as its own",
                     s->others_unknown);
}

static const char *why_nothing_was_timed(const struct td_speed *s)
{
    if (s->names_build && s->names_server)
        return "no op was timed beside the baseline build, and no answer beside one of the baseline server";
    if (s->names_build)
        return "no op was timed beside the baseline build (servers: --baseline-server HOST:PORT)";
    if (s->names_server)
        return "no answer was timed beside one of the baseline server (ops: --baseline-build LIB)";
    return "no timings of both builds (ops: --baseline-build LIB; servers: --baseline-server HOST:PORT)";
}

void td_speed_judge(const struct td_speed *s, const struct td_policy *policy, struct td_lane *lane)
{
    if (s->op_pairs)
        judge_rows(s, policy, true, lane);
    if (*s->client_limited && (s->rounds >= 2 || (s->starts && !*s->other_host))) /* else it would be judged */
        td_lane_note(lane, TD_INCONCLUSIVE, "%s", s->client_limited);
    else if (*s->client_limited)
        td_lane_no_evidence(lane, "%s", s->client_limited);
    else if (s->by_starts)
        judge_starts(s, policy, lane);
    else if (s->server_judged && !s->server_pairs)
        td_lane_note(lane, TD_INCONCLUSIVE, "no answer was timed on both servers");
    else if (s->server_judged)
        judge_rows(s, policy, false, lane);
    else if (s->left_out)
        ; /* note_others() says so */
    else if (s->starts)
        td_lane_no_evidence(lane, "the server's speed is information, though %zu starts were recorded: %s", s->starts,
                            *s->other_host ? s->other_host : "no prompt has a figure on each of them and of this server");
    else if (s->server_pairs && !s->op_pairs)
        td_lane_no_evidence(lane, "one server against an older recording is information; "
                                  "--baseline-server runs both in turn");
    else if (s->server_pairs)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "the server's speed is information; --baseline-server runs both in turn");
    if (!s->op_pairs && !s->server_pairs && !s->starts && !s->uneven)
        td_lane_no_evidence(lane, "%s", why_nothing_was_timed(s));
    if (!*s->client_limited)
        note_others(s, lane);
    td_speed_clocks_judge(s, lane);
}

/* Which baselines were given? No report advises to give them again. */
static void find_named(const struct td_comparison *c, struct td_speed *s)
{
    size_t i;

    for (i = 0; i < c->n_sides; i++) {
        s->names_build |= c->side[i].role == TD_NEW && td_json_get(td_json_get(td_fixture_manifest(c->side[i].fx), "replay"), "baseline_build");
        s->names_server |= c->side[i].role == TD_LIVE;
    }
}

static int measure_speed(struct td_comparison *c, void *measured, struct td_error *err)
{
    struct td_speed_block *block = NULL;
    size_t n = 0;
    int rc = td_speed_others_read(c->side, c->n_sides, &block, &n);

    if (rc)
        return td_fail(err, rc, "no memory for timings");
    rc = td_speed_compare(&c->ops, &c->groups, c->n_sides > 1 ? td_fixture_manifest(c->side[0].fx) : NULL,
                          c->n_sides > 1 ? td_fixture_manifest(c->side[1].fx) : NULL, block, n, &c->policy, measured, err);
    free(block);
    find_named(c, measured);
    return rc;
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
        const bool row = !s->row[i].total && td_speed_metric_is_op(s->row[i].metric);

        rows += row;
        slower += row && s->row[i].verdict == TD_REGRESSED;
    }
    td_buf_addf(line, " slower=%zu/%zu", slower, rows);
}

/* A recording of several starts was made so that speed is judged. */
static bool has_starts(const void *measured)
{
    const struct td_speed *s = measured;

    return s->starts > 0;
}

const struct td_lane_type td_lane_speed = {
    .joins = has_starts,
    .judges = TD_REPLAYED_PAIRS,
    .measured_size = sizeof(struct td_speed),
    .measure = measure_speed,
    .release = release_speed,
    .has_evidence = has_timings,
    .headline = td_speed_headline,
    .judge = judge_speed,
    .add_answer_figures = add_latency,
    .add_op_figures = add_slower_ops,
    .write_json = td_speed_write_json,
};
