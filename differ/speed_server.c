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

/* Measure how far two rounds of the live baseline lie apart, by the median of each metric. */
static int measure_spread(const struct td_groups *g, int rounds, struct td_speed *s)
{
    struct td_ratios r[N_SERVER_METRICS] = {{0}};
    size_t i, j;
    int m, round, before = 0, rc = TD_OK;

    while (before < rounds && td_speed_others_left_out(s, before))
        before++;
    for (round = before + 1; round < rounds && !rc; round++) {
        if (td_speed_others_left_out(s, round))
            continue;
        for (m = 0; m < N_SERVER_METRICS; m++)
            r[m].n = 0;
        for (i = 0; i < g->n; i++) {
            const struct td_prompt_group *p = &g->group[i];

            for (j = 0; j < p->n[TD_LIVE] && !rc; j++) {
                const struct td_exchange *a = p->by_role[TD_LIVE][j].x, *b;
                struct td_answer_speed fa, fb;

                if (p->by_role[TD_LIVE][j].round != before || !td_speed_is_evidence(a) ||
                    !(b = find_answer_of_round(p, TD_LIVE, round, a->repeat)))
                    continue;
                td_speed_of_answer(a, &fa);
                td_speed_of_answer(b, &fb);
                for (m = 0; m < N_SERVER_METRICS && !rc; m++)
                    if (m != TD_E2E || fa.tokens == fb.tokens)
                        rc = td_ratios_add(&r[m], fa.v[m], fb.v[m], false);
            }
        }
        for (m = 0; m < N_SERVER_METRICS; m++)
            if (r[m].n)
                s->spread[m] =
                    fmax(s->spread[m], expm1(fabs(td_stat_median(r[m].log_ratio, r[m].n))));
        before = round;
    }
    for (m = 0; m < N_SERVER_METRICS; m++) {
        free(r[m].log_ratio);
        free(r[m].base);
        free(r[m].now);
    }
    return rc;
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

int td_speed_server(const struct td_groups *g, const struct td_policy *policy, struct td_speed *s, struct td_error *err)
{
    int live = count_rounds(g, TD_LIVE), now = count_rounds(g, TD_NEW), rc = TD_OK;
    size_t i, j;

    s->rounds = live < now ? live : now;
    if (s->rounds < 2)
        check_client(g, TD_BASE, "the recording", s);
    check_client(g, TD_LIVE, "the baseline", s);
    check_client(g, TD_NEW, "the candidate", s);
    if (s->rounds >= TD_SPEED_ROUNDS_LEAST)
        td_speed_others_leave_out(s, policy->others);
    s->server_judged = s->rounds - s->left_out >= TD_SPEED_ROUNDS_LEAST && !*s->client_limited;
    if (s->rounds < TD_SPEED_ROUNDS_LEAST && s->starts && !*s->other_host && !*s->client_limited) {
        rc = td_speed_starts_measure(g, s, err);
        s->by_starts = s->server_judged = s->server_pairs > 0;
        return rc;
    }
    for (i = 0; i < g->n && !rc; i++) {
        const struct td_prompt_group *p = &g->group[i];

        for (j = 0; j < p->n[TD_NEW] && !rc; j++) {
            const struct td_xref *x = &p->by_role[TD_NEW][j];
            const struct td_exchange *base;

            if (!td_speed_is_evidence(x->x) || (s->server_judged && td_speed_others_left_out(s, x->round)))
                continue;
            base = s->rounds >= 2 ? find_answer_of_round(p, TD_LIVE, x->round, x->x->repeat)
                                    : find_answer_of_round(p, TD_BASE, 0, x->x->repeat);
            if (base)
                rc = add_pair(s, p->category, base, x->x);
        }
    }
    if (!rc && s->rounds >= 2)
        rc = measure_spread(g, live, s);
    return rc ? td_fail(err, rc, "no memory for timings") : TD_OK;
}
