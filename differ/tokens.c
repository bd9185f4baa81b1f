/* tokens.c - align token streams, name the first divergence, compare it with the noise.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/stats.h"

const char *td_unit_name(enum td_unit u)
{
    return u == TD_UNIT_BYTES ? "byte" : "token";
}

/* ---- two answers ----------------------------------------------------------------------------- */

struct td_difference td_tokens_compare(const struct td_exchange *a, const struct td_exchange *b)
{
    struct td_difference d = {false, TD_UNIT_BYTES, 0};
    int32_t na = a->n_tokens, nb = b->n_tokens, n = na < nb ? na : nb, i = 0;

    if (a->token_ids && b->token_ids && a->ids_complete && b->ids_complete) {
        d.unit = TD_UNIT_IDS;
        while (i < n && a->token_ids[i] == b->token_ids[i])
            i++;
    } else if (a->token_text && b->token_text && na > 0 && nb > 0) {
        d.unit = TD_UNIT_PIECES;
        while (i < n && a->token_text[i] && b->token_text[i] &&
               strcmp(a->token_text[i], b->token_text[i]) == 0)
            i++;
    } else {
        size_t len = a->text_len < b->text_len ? a->text_len : b->text_len, k = 0;

        while (k < len && a->text[k] == b->text[k])
            k++;
        d.position = k > INT32_MAX ? INT32_MAX : (int32_t)k;
        d.equal = a->text_len == b->text_len && k == len;
        return d;
    }
    d.position = i;
    d.equal = na == nb && i == n;
    return d;
}

/* The gap between the token that x chose at position i and its alternative `id`; NaN: not recorded.
 * *outside: `id` is not among the alternatives, and the gap is that of the last one. */
static double gap_to(const struct td_exchange *x, int32_t i, int32_t id, bool *outside)
{
    const struct td_alt *row = td_exchange_top_row(x, i);
    double best = NAN, last = NAN;
    int32_t k;

    if (!row)
        return NAN;
    if (x->logprobs && !isnan(x->logprobs[i]))
        best = x->logprobs[i];
    for (k = 0; k < x->top_k; k++) {
        if (row[k].id < 0 || isnan(row[k].logprob))
            continue;
        if (isnan(best))
            best = row[k].logprob;
        last = row[k].logprob;
        if (row[k].id == id)
            return fabs(best - row[k].logprob);
    }
    *outside = !isnan(last);
    return fabs(best - last);
}

/* The gap between the two best alternatives at position i. */
static double top2_gap(const struct td_exchange *x, int32_t i)
{
    const struct td_alt *row = td_exchange_top_row(x, i);
    double first = NAN, second = NAN;
    int32_t k;

    for (k = 0; row && k < x->top_k; k++) {
        float lp = row[k].logprob;

        if (isnan(lp))
            continue;
        if (isnan(first) || lp > first) {
            second = first;
            first = lp;
        } else if (isnan(second) || lp > second) {
            second = lp;
        }
    }
    return first - second;
}

static void measure_gap(struct td_fork *f)
{
    int32_t i = f->at.position;

    f->gap = NAN;
    f->outside_top_k = false;
    if (f->at.unit == TD_UNIT_BYTES)
        return;
    if (i >= f->good->n_tokens)
        f->gap = top2_gap(f->bad, i);
    else if (i >= f->bad->n_tokens || f->at.unit != TD_UNIT_IDS)
        f->gap = top2_gap(f->good, i);
    else
        f->gap = gap_to(f->good, i, f->bad->token_ids[i], &f->outside_top_k);
}

/* Add |logprob - logprob| of the first `upto` tokens to *sum. Returns how many were added. */
static size_t logprob_distance(const struct td_exchange *a, const struct td_exchange *b,
                               int32_t upto, double *sum)
{
    size_t n = 0;
    int32_t i;

    if (!a->logprobs || !b->logprobs)
        return 0;
    for (i = 0; i < upto && i < a->n_tokens && i < b->n_tokens; i++)
        if (isfinite(a->logprobs[i]) && isfinite(b->logprobs[i])) { /* -Infinity: not given */
            *sum += fabs((double)a->logprobs[i] - (double)b->logprobs[i]);
            n++;
        }
    return n;
}

bool td_tokens_fork(const struct td_exchange *x, const struct td_xref *refs, size_t n, size_t skip,
                    struct td_fork *out)
{
    size_t i, k;
    double sum = 0;
    bool any = false;

    for (i = 0; i < n; i++) {
        struct td_difference d;

        if (i == skip || refs[i].x->error)
            continue;
        d = td_tokens_compare(refs[i].x, x);
        if (d.equal)
            return false;
        if (!any || d.position > out->at.position) {
            out->good = refs[i].x;
            out->at = d;
        }
        any = true;
    }
    if (!any)
        return false;
    out->bad = x;
    measure_gap(out);
    k = out->at.unit == TD_UNIT_BYTES ? 0 : logprob_distance(out->good, x, out->at.position, &sum);
    out->mean_dlogprob = k ? sum / (double)k : NAN;
    return true;
}

bool td_tokens_greedy(const struct td_exchange *x)
{
    const cJSON *sampling = td_json_get(x->request, "sampling_params");

    return td_json_get_num(sampling ? sampling : x->request, "temperature", NAN) == 0;
}

/* ---- all answers ----------------------------------------------------------------------------- */

static bool answered(const struct td_exchange *x)
{
    return !x->error;
}

static size_t count_answered(const struct td_xref *refs, size_t n)
{
    size_t i, k = 0;

    for (i = 0; i < n; i++)
        k += answered(refs[i].x);
    return k;
}

/* Count one fork of a prompt. *known: the largest gap of this prompt's forks so far; NaN: none
 * is known. */
static void add_noise_fork(struct td_noise *noise, const struct td_fork *f, double *known)
{
    noise->forks++;
    if (isnan(f->gap) || f->outside_top_k)
        return;
    *known = fmax(*known, f->gap); /* fmax(NaN, x) is x */
    noise->gap_max = fmax(noise->gap_max, f->gap);
}

/* Each answer of the baseline against the other answers of the baseline. */
static void noise_of_baseline(const struct td_prompt_group *g, struct td_noise *noise)
{
    size_t i, before = noise->forks;
    double known = NAN;

    if (count_answered(g->by_role[TD_BASE], g->n[TD_BASE]) < 2)
        return;
    noise->prompts++;
    for (i = 0; i < g->n[TD_BASE]; i++) {
        struct td_fork f;

        if (!answered(g->by_role[TD_BASE][i].x))
            continue;
        noise->answers++;
        if (td_tokens_fork(g->by_role[TD_BASE][i].x, g->by_role[TD_BASE], g->n[TD_BASE], i, &f))
            add_noise_fork(noise, &f, &known);
    }
    noise->forked += noise->forks > before;
    noise->gap_prompts += !isnan(known);
}

/* The answers of one fixture (an honest build, or the baseline's live server) against the
 * baseline. */
static void noise_of_others(const struct td_prompt_group *g, enum td_role role,
                            struct td_noise *noise)
{
    size_t i, before = noise->forks, answers = noise->answers;
    double known = NAN;

    if (count_answered(g->by_role[TD_BASE], g->n[TD_BASE]) == 0)
        return;
    for (i = 0; i < g->n[role]; i++) {
        const struct td_xref *r = &g->by_role[role][i];
        struct td_fork f;

        if (r->round != noise->round || !answered(r->x))
            continue;
        noise->answers++;
        if (td_tokens_fork(r->x, g->by_role[TD_BASE], g->n[TD_BASE], g->n[TD_BASE], &f))
            add_noise_fork(noise, &f, &known);
    }
    noise->prompts += noise->answers > answers;
    noise->forked += noise->forks > before;
    noise->gap_prompts += !isnan(known);
}

static void measure_group(const struct td_prompt_group *g, struct td_tokens *t, double *dsum,
                          size_t *dn)
{
    size_t i, forks = t->n_forks, answers = t->answers,
              good = count_answered(g->by_role[TD_BASE], g->n[TD_BASE]);

    if (good && !g->n[TD_NEW])
        t->missing++;
    if (g->n[TD_NEW] && good && (t->repeats_min == 0 || (int32_t)good < t->repeats_min))
        t->repeats_min = (int32_t)good;
    for (i = 0; i < g->n[TD_NEW]; i++) {
        const struct td_exchange *x = g->by_role[TD_NEW][i].x, *b = td_groups_counterpart(g, x);
        struct td_fork *f = &t->forks[t->n_forks];

        t->attempts++;
        if (x->error) {
            if (!b)
                t->unmatched++;
            else if (b->error)
                t->errors_alike++;
            else
                t->lost[t->n_lost++] = x;
            continue;
        }
        if (good == 0) {
            t->unmatched++;
            continue;
        }
        t->answers++;
        if (td_tokens_fork(x, g->by_role[TD_BASE], g->n[TD_BASE], g->n[TD_BASE], f)) {
            f->group = g;
            f->role = TD_NEW;
            f->round = g->by_role[TD_NEW][i].round;
            *dn += logprob_distance(f->good, x, f->at.unit == TD_UNIT_BYTES ? 0 : f->at.position,
                                    dsum);
            t->n_forks++;
        } else if (b && !b->error) {
            *dn += logprob_distance(b, x, x->n_tokens, dsum);
        }
    }
    t->prompts += t->answers > answers;
    t->prompts_forked += t->n_forks > forks;
}

static int count_rounds_of(const struct td_groups *g, enum td_role role)
{
    size_t i, j;
    int max = 0;

    for (i = 0; i < g->n; i++)
        for (j = 0; j < g->group[i].n[role]; j++)
            if (g->group[i].by_role[role][j].round >= max)
                max = g->group[i].by_role[role][j].round + 1;
    return max;
}

/* Forks of one prompt stand next to each other: count the prompts, by their largest known gap. */
static void count_gaps(struct td_tokens *t, const struct td_policy *policy)
{
    size_t i, j;

    t->gap_limit = fmin(policy->gap_max, policy->factor * t->gap_noise); /* fmin(x, NaN) is x */

    for (i = 0; i < t->n_forks; i = j) {
        double largest = NAN;

        for (j = i; j < t->n_forks && t->forks[j].group == t->forks[i].group; j++) {
            const struct td_fork *f = &t->forks[j];

            t->gaps_unknown += isnan(f->gap);
            t->gaps_hopeless += f->outside_top_k || f->gap > t->gap_limit;
            largest = fmax(largest, f->gap);
        }
        t->gap_prompts += !isnan(largest);
        t->prompts_over += largest > t->gap_noise;
    }
}

/* Test whether gaps and shares of the forks are within what the noise shows. */
static void compare_with_noise(struct td_tokens *t, const struct td_policy *policy)
{
    size_t i, prompts = 0;
    double p = 0;

    t->gap_noise = NAN;
    for (i = 0; i < t->n_noise; i++) {
        const struct td_noise *z = &t->noise[i];

        if (z->gap_prompts)
            t->gap_noise = fmax(t->gap_noise, z->gap_max);
        prompts += z->gap_prompts;
        if (z->prompts && z->forked)
            p = fmax(p,
                     td_stat_share_larger_p(t->prompts_forked, t->prompts, z->forked, z->prompts));
    }
    t->share_p = t->prompts_forked ? p : 1;
    count_gaps(t, policy);
    t->gap_p = prompts ? td_stat_rank_over_p(t->prompts_over, t->gap_prompts, prompts) : 1;
}

int td_tokens_measure(const struct td_groups *g, const struct td_policy *policy,
                      struct td_tokens *t, struct td_error *err)
{
    size_t i, n = 0, dn = 0;
    int r, live = count_rounds_of(g, TD_LIVE), cal = count_rounds_of(g, TD_CALIBRATE);
    double dsum = 0;

    memset(t, 0, sizeof *t);
    for (i = 0; i < g->n; i++)
        n += g->group[i].n[TD_NEW];
    t->forks = calloc(n + 1, sizeof *t->forks);
    t->lost = calloc(n + 1, sizeof *t->lost);
    t->noise = calloc((size_t)(live + cal + 1), sizeof *t->noise);
    if (!t->forks || !t->lost || !t->noise) {
        td_tokens_release(t);
        return td_fail(err, TD_ENOMEM, "no memory to compare %zu answers", n);
    }
    t->n_noise = (size_t)(live + cal + 1);
    t->unreached = !g->candidate_reached;
    for (r = 0; r < live + cal; r++) {
        t->noise[r + 1].role = r < live ? TD_LIVE : TD_CALIBRATE;
        t->noise[r + 1].round = r < live ? r : r - live;
    }
    for (i = 0; i < g->n; i++) {
        measure_group(&g->group[i], t, &dsum, &dn);
        noise_of_baseline(&g->group[i], &t->noise[0]);
        for (r = 1; r < (int)t->n_noise; r++)
            noise_of_others(&g->group[i], t->noise[r].role, &t->noise[r]);
    }
    t->mean_dlogprob = dn ? dsum / (double)dn : NAN;
    compare_with_noise(t, policy);
    return TD_OK;
}

void td_tokens_release(struct td_tokens *t)
{
    free(t->forks);
    free(t->lost);
    free(t->noise);
    memset(t, 0, sizeof *t);
}
