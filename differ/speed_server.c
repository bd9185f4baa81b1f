/* speed_server.c - what requests took on both servers, paired by prompt and repeat.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/speed_answer.h"
#include "differ/speed_others.h"
#include "differ/speed_starts.h"
#include "wire/client_lag.h"

#define N_SERVER_METRICS TD_SERVER_METRICS

static int add_pair(struct td_speed *s, const char *category, const struct td_exchange *a,
                    const struct td_exchange *b)
{
    struct td_answer_speed fa, fb;
    int m, t, rc = TD_OK;

    td_speed_of_answer(a, &fa);
    td_speed_of_answer(b, &fb);
    s->server_pairs++;
    for (m = 0; m < N_SERVER_METRICS && !rc; m++) {
        if (m == TD_E2E && fa.tokens != fb.tokens)
            continue; /* answers of unequal length say nothing about speed */
        for (t = *category ? 0 : 1; t < 2 && !rc; t++) { /* its category, then the total */
            struct td_speed_row *row =
                td_speed_row(s, (enum td_speed_metric)m, t ? "total" : category, t);

            rc = row ? td_ratios_add(&row->pairs, fa.v[m], fb.v[m], m == TD_THROUGHPUT) : TD_ENOMEM;
        }
    }
    return rc;
}

static const struct td_exchange *find_answer_of_round(const struct td_prompt_group *g,
                                                      enum td_role role, int round, int32_t repeat)
{
    size_t i;

    for (i = 0; i < g->n[role]; i++)
        if (g->by_role[role][i].round == round && g->by_role[role][i].x->repeat == repeat &&
            td_speed_is_evidence(g->by_role[role][i].x))
            return g->by_role[role][i].x;
    return NULL;
}

static int count_rounds(const struct td_groups *g, enum td_role role)
{
    size_t i, j;
    int max = 0;

    for (i = 0; i < g->n; i++)
        for (j = 0; j < g->group[i].n[role]; j++)
            if (td_speed_is_evidence(g->group[i].by_role[role][j].x) &&
                g->group[i].by_role[role][j].round >= max)
                max = g->group[i].by_role[role][j].round + 1;
    return max;
}

/* Did the client of one run send so late that its figures are not the server's? Then no speed is judged. */
static void check_client(const struct td_groups *g, enum td_role role, const char *name, struct td_speed *s)
{
    struct td_client_lag lag = {0};
    char words[240];
    size_t i, j;

    for (i = 0; i < g->n; i++)
        for (j = 0; j < g->group[i].n[role]; j++)
            td_client_lag_add(&lag, g->group[i].by_role[role][j].x);
    if (!*s->client_limited && td_client_lag_limits(&lag))
        snprintf(s->client_limited, sizeof s->client_limited, "%s: %s", name, td_client_lag_limit_words(&lag, words, sizeof words));
    td_client_lag_release(&lag);
}

/* Collect the pairs of one round of the candidate: beside that of the live baseline, else beside the recording. */
static int collect_round(const struct td_groups *g, int round, bool live, struct td_speed *out)
{
    size_t i, j;
    int rc = TD_OK;

    for (i = 0; i < g->n && !rc; i++) {
        const struct td_prompt_group *p = &g->group[i];

        for (j = 0; j < p->n[TD_NEW] && !rc; j++) {
            const struct td_xref *x = &p->by_role[TD_NEW][j];
            const struct td_exchange *base;

            if (x->round != round || !td_speed_is_evidence(x->x))
                continue;
            base = live ? find_answer_of_round(p, TD_LIVE, round, x->x->repeat) : find_answer_of_round(p, TD_BASE, 0, x->x->repeat);
            if (base)
                rc = add_pair(out, p->category, base, x->x);
        }
    }
    return rc;
}

/* Make one sample of the pairs of a row in one round: the medians of both sides, and Hodges-Lehmann's estimate of their ratio, which
 * also moves where some prompts alone are slower. What slows a machine for seconds slows all pairs of a round, so these are not
 * independent; rounds are, as to which side it slows, for their order was drawn. A row without pairs is made, too: it lacks samples. */
static int add_sample(struct td_speed *s, const struct td_speed_row *of)
{
    struct td_speed_row *row = td_speed_row(s, of->metric, of->label, of->total);
    const struct td_ratios *p = &of->pairs;
    int rc;

    if (!row || !p->n)
        return row ? TD_OK : TD_ENOMEM;
    rc = td_ratios_add(&row->pairs, td_stat_median(p->base, p->n), td_stat_median(p->now, p->n), false);
    if (!rc)
        row->pairs.log_ratio[row->pairs.n - 1] = td_stat_hodges_lehmann(p->log_ratio, p->n, 0.5).est;
    return rc;
}

static int add_round(const struct td_groups *g, struct td_speed *s, int round)
{
    struct td_speed one = {0};
    size_t i;
    int rc;

    if (s->rounds < TD_SPEED_ROUNDS_LEAST)
        return collect_round(g, round, false, s);
    rc = collect_round(g, round, true, &one);
    for (i = 0; i < one.n && !rc; i++)
        rc = add_sample(s, &one.row[i]);
    s->server_pairs += one.server_pairs;
    td_speed_release(&one);
    return rc;
}

int td_speed_server(const struct td_groups *g, const struct td_policy *policy, struct td_speed *s, struct td_error *err)
{
    const int live = count_rounds(g, TD_LIVE), now = count_rounds(g, TD_NEW);
    int round, rc = TD_OK;

    s->rounds = live < now ? live : now;
    if (s->rounds < 2)
        check_client(g, TD_BASE, "the recording", s);
    check_client(g, TD_LIVE, "the baseline", s);
    check_client(g, TD_NEW, "the candidate", s);
    if (s->rounds >= TD_SPEED_ROUNDS_LEAST) {
        td_speed_others_count_whole(s);
        td_speed_others_leave_out(s, policy->others);
    }
    s->server_judged = s->rounds - s->whole - s->left_out >= TD_SPEED_ROUNDS_LEAST && !*s->client_limited;
    if (s->rounds < TD_SPEED_ROUNDS_LEAST && s->starts && !*s->other_host && !*s->client_limited) {
        rc = td_speed_starts_measure(g, s, err);
        s->by_starts = s->server_judged = s->server_pairs > 0;
        return rc;
    }
    for (round = 0; round < now && !rc; round++)
        if (!s->server_judged || td_speed_others_is_timed(s, round))
            rc = add_round(g, s, round);
    return rc ? td_fail(err, rc, "no memory for timings") : TD_OK;
}
