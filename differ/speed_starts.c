/* speed_starts.c - a server's speed against a recording that holds several starts of the server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_starts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/speed_answer.h"
#include "differ/speed_others.h"
#include "format/planned.h"

#define MOST_STARTS 100
#define PROBES_DIFFER 1.05

/* ---- one machine ------------------------------------------------------------------------------ */

/* Text of a fact of the machine; numbers as text. */
static const char *fact_text(const cJSON *manifest, const char *key, char out[160])
{
    const cJSON *v = td_json_get(td_json_get(manifest, "host"), key);

    out[0] = '\0';
    if (cJSON_IsString(v))
        snprintf(out, 160, "%.150s", v->valuestring);
    else if (cJSON_IsNumber(v))
        snprintf(out, 160, "%.10g", v->valuedouble);
    return out;
}

/* Is the server on the machine of who asked it? */
static bool is_local(const cJSON *manifest)
{
    static const char *const ours[] = {"127.", "localhost", "[::1]"};
    const char *url = td_json_get_str(td_json_get(manifest, "server"), "url", ""), *host = strstr(url, "://");
    size_t i;

    host = host ? host + 3 : url;
    for (i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strncmp(host, ours[i], strlen(ours[i])))
            return true;
    return false;
}

static void compare_hosts(const cJSON *base, const cJSON *now, struct td_speed *s)
{
    static const struct { const char *key, *words; bool shown; } facts[] = {
        {"machine", "another machine", false},  {"cpu", "processor", true},       {"cores", "cores", true},
        {"gpu", "GPU", true},                   {"gpu_driver", "GPU driver", true}, {"kernel", "kernel", true},
        {"cpu_governor", "CPU governor", true}, {"cpu_max_khz", "highest CPU clock, kHz", true}};
    char a[160], b[160];
    size_t i;

    if (!is_local(base) || !is_local(now)) {
        snprintf(s->other_host, sizeof s->other_host, "the server is not on the machine that %s it", is_local(base) ? "asked" : "recorded");
        return;
    }
    for (i = 0; i < sizeof facts / sizeof *facts && !*s->other_host; i++)
        if (strcmp(fact_text(base, facts[i].key, a), fact_text(now, facts[i].key, b)) && facts[i].shown)
            snprintf(s->other_host, sizeof s->other_host, "%s: %.100s, recorded on %.100s", facts[i].words, *b ? b : "not known", *a ? a : "not known");
        else if (strcmp(a, b))
            snprintf(s->other_host, sizeof s->other_host, "%s", facts[i].words);
}

/* Is the machine as fast as it was when the starts were recorded? By a fixed computation that was timed each time: more than a
 * twentieth outside of all of these is another machine as to speed, and so is one that nobody timed. */
static void compare_probes(const cJSON *base, const cJSON *now, struct td_speed *s)
{
    const cJSON *of = td_json_get(td_json_get(base, "host"), "cpu_probe_ms"), *one;
    const double x = td_json_num(cJSON_GetArrayItem(td_json_get(td_json_get(now, "host"), "cpu_probe_ms"), 0), NAN);
    double least = INFINITY, most = 0;

    cJSON_ArrayForEach(one, of) {
        least = fmin(least, td_json_num(one, INFINITY));
        most = fmax(most, td_json_num(one, 0));
    }
    if (*s->other_host || !(most > 0))
        return;
    if (!(x > 0))
        snprintf(s->other_host, sizeof s->other_host, "how fast its processors are now was not measured (cpu_probe_ms)");
    else if (x > most * PROBES_DIFFER || x < least / PROBES_DIFFER)
        snprintf(s->other_host, sizeof s->other_host, "its processors are %s now: a fixed computation takes %.3g ms, and took %.3g to %.3g ms",
             x > most ? "busier, or clocked lower," : "less busy, or clocked higher,", x, least, most);
}

void td_speed_starts_find(const cJSON *base, const cJSON *now, double others, struct td_speed *s)
{
    const int64_t starts = td_planned_starts(base);

    if (starts < 2 || starts > MOST_STARTS)
        return;
    s->starts = (size_t)starts;
    s->repeats_of_start = td_json_get_i64(td_json_get(base, "plan"), "repeats", 0) / starts;
    compare_hosts(base, now, s);
    td_speed_others_compare_starts(base, now, others, s);
    compare_probes(base, now, s);
}

/* ---- figures ---------------------------------------------------------------------------------- */

/* What one prompt says of a metric: a mean logarithm for each start, and for the candidate at the end. */
struct figures { double of[MOST_STARTS + 1]; };

/* The answers to a prompt on one start, or the candidate's (start == s->starts): the mean logarithm. NaN: there is none.
 *   tokens : of all answers so far, for E2E; 0: none yet; -1: they differ */
static double mean_of(const struct td_prompt_group *p, const struct td_speed *s, size_t start, enum td_speed_metric m, int32_t *tokens)
{
    const enum td_role role = start == s->starts ? TD_NEW : TD_BASE;
    struct td_answer_speed f;
    double sum = 0;
    size_t i, n = 0;

    for (i = 0; i < p->n[role]; i++) {
        const struct td_exchange *x = p->by_role[role][i].x;

        if (!td_speed_is_evidence(x) || (role == TD_BASE && (size_t)(x->repeat / s->repeats_of_start) != start))
            continue;
        td_speed_of_answer(x, &f);
        *tokens = !*tokens || *tokens == f.tokens ? f.tokens : -1;
        if (f.v[m] > 0 && isfinite(f.v[m])) {
            sum += log(f.v[m]);
            n++;
        }
    }
    return n ? sum / (double)n : NAN;
}

/* False: not all starts and the candidate have such a figure. */
static bool measure_prompt(const struct td_prompt_group *p, const struct td_speed *s, enum td_speed_metric m, struct figures *out)
{
    int32_t tokens = 0;
    size_t i;

    for (i = 0; i <= s->starts; i++)
        if (isnan(out->of[i] = mean_of(p, s, i, m, &tokens)))
            return false;
    return m != TD_E2E || tokens > 0;
}

static double mean_over_starts(const struct figures *f, size_t starts)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < starts; i++)
        sum += f->of[i];
    return sum / (double)starts;
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* Which prompts a row has: those of a category, of a concurrency, or all. */
struct choice { const char *category; int32_t concurrency; };

static int32_t concurrency_of(const struct td_prompt_group *p)
{
    return p->n[TD_BASE] ? p->by_role[TD_BASE][0].x->concurrency : 0;
}

static bool is_chosen(const struct td_prompt_group *p, const struct choice *c)
{
    return (!c->category || !strcmp(c->category, p->category)) && (c->concurrency < 0 || c->concurrency == concurrency_of(p));
}

/* Add a row of one metric.
 *   room : [g->n] */
static int add_row(const struct td_groups *g, struct td_speed *s, enum td_speed_metric m, const struct choice *c, const char *label,
                   bool total, struct figures *room, double *column)
{
    double level, now;
    size_t i, p, n = 0;
    struct td_speed_row *row;
    int rc = TD_OK;

    for (p = 0; p < g->n; p++)
        if (is_chosen(&g->group[p], c) && measure_prompt(&g->group[p], s, m, &room[n]))
            n++;
    if (!n)
        return TD_OK;
    row = td_speed_row(s, m, label, total);
    if (!row)
        return TD_ENOMEM;
    for (p = 0; p < n; p++)
        column[p] = mean_over_starts(&room[p], s->starts);
    level = td_stat_median(column, n);
    for (p = 0; p < n; p++)
        column[p] = room[p].of[s->starts] - mean_over_starts(&room[p], s->starts);
    now = td_stat_median(column, n);
    for (i = 0; i < s->starts && !rc; i++) {
        for (p = 0; p < n; p++)
            column[p] = room[p].of[i] - mean_over_starts(&room[p], s->starts);
        rc = td_ratios_add(&row->pairs, exp(level + td_stat_median(column, n)), exp(level + now), m == TD_THROUGHPUT);
    }
    s->server_pairs += s->starts;
    return rc;
}

/* Rows of all prompts of this choice. */
static int add_rows(const struct td_groups *g, struct td_speed *s, const struct choice *c, const char *label, bool total,
                    struct figures *room, double *column)
{
    int m, rc = TD_OK;

    for (m = 0; m < TD_OP_HOT && !rc; m++)
        rc = add_row(g, s, (enum td_speed_metric)m, c, label, total, room, column);
    return rc;
}

/* Is this the first prompt of its category, or of its concurrency? */
static bool is_first(const struct td_groups *g, size_t p, bool category)
{
    size_t i;

    for (i = 0; i < p; i++)
        if (category ? !strcmp(g->group[i].category, g->group[p].category) : concurrency_of(&g->group[i]) == concurrency_of(&g->group[p]))
            return false;
    return true;
}

static int add_all(const struct td_groups *g, struct td_speed *s, struct figures *room, double *column)
{
    bool several = false;
    char label[40];
    size_t p;
    int rc = add_rows(g, s, &(struct choice){NULL, -1}, "total", true, room, column);

    for (p = 0; p < g->n; p++)
        several |= concurrency_of(&g->group[p]) != concurrency_of(&g->group[0]);
    for (p = 0; p < g->n && !rc; p++) {
        if (*g->group[p].category && is_first(g, p, true))
            rc = add_rows(g, s, &(struct choice){g->group[p].category, -1}, g->group[p].category, false, room, column);
        snprintf(label, sizeof label, "concurrency %d", (int)concurrency_of(&g->group[p]));
        if (!rc && several && is_first(g, p, false))
            rc = add_rows(g, s, &(struct choice){NULL, concurrency_of(&g->group[p])}, label, false, room, column);
    }
    return rc;
}

int td_speed_starts_measure(const struct td_groups *g, struct td_speed *s, struct td_error *err)
{
    struct figures *room = calloc(g->n + 1, sizeof *room);
    double *column = malloc((g->n + 1) * sizeof *column);
    int rc = room && column ? add_all(g, s, room, column) : TD_ENOMEM;

    free(room);
    free(column);
    return rc ? td_fail(err, rc, "no memory for timings") : TD_OK;
}

/* ---- deciding --------------------------------------------------------------------------------- */

static double spread_of(const struct td_ratios *r, double mean)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < r->n; i++)
        sum += (r->log_ratio[i] - mean) * (r->log_ratio[i] - mean);
    return sqrt(sum / (double)(r->n - 1));
}

static double mean_ratio(const struct td_ratios *r)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < r->n; i++)
        sum += r->log_ratio[i];
    return sum / (double)r->n;
}

/* Half of the prediction interval for one more start. */
static double half_of(double spread, size_t starts, double alpha)
{
    return td_stat_t_limit(alpha, (double)starts - 1) * spread * sqrt(1 + 1 / (double)starts);
}

void td_speed_starts_decide(struct td_speed_row *row, double effect)
{
    const struct td_ratios *p = &row->pairs;
    const double mean = mean_ratio(p), half = p->n > 1 ? half_of(spread_of(p, mean), p->n, row->alpha) : INFINITY;

    row->base = td_stat_median(p->base, p->n);
    row->now = td_stat_median(p->now, p->n);
    row->effect = (struct td_interval){expm1(mean), expm1(mean - half), expm1(mean + half), p->n, p->n > 1};
    row->verdict = !row->effect.reached ? TD_NOT_JUDGED : row->effect.est > effect && row->effect.lo > 0 ? TD_REGRESSED : TD_PASS;
    row->faster = row->effect.reached && row->effect.est < -effect && row->effect.hi < 0;
}

size_t td_speed_starts_needed(const struct td_speed_row *row, double detect)
{
    const double mean = mean_ratio(&row->pairs), spread = row->pairs.n > 1 ? spread_of(&row->pairs, mean) : INFINITY;
    size_t n = row->pairs.n > 2 ? row->pairs.n : 2;

    if (row->verdict == TD_REGRESSED || half_of(spread, row->pairs.n, row->alpha) <= log1p(detect))
        return 0;
    while (n < TD_SPEED_STARTS_MOST && half_of(spread, n, row->alpha) > log1p(detect))
        n++;
    return n;
}
