/* damage.c - do answers differ by more than any rounding explains?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/damage.h"

#include <math.h>
#include <string.h>

#include "differ/stats.h"

/* Fewer values have no mean that could be judged. */
enum { MIN_POSITIONS = 12, MIN_PROMPTS = 4, MIN_CLEAR = 3 };

struct sum {
    double x, xx;
    size_t n;
};

static void add(struct sum *s, double x)
{
    s->x += x;
    s->xx += x * x;
    s->n++;
}

static struct td_mean mean_of(const struct sum *s, size_t least)
{
    struct td_mean m = {NAN, NAN, s->n};
    double n = (double)s->n;

    if (s->n < least)
        return m;
    m.mean = s->x / n;
    m.error = sqrt(fmax(0, s->xx / n - m.mean * m.mean) / (n - 1));
    return m;
}

/* ---- one pair of answers --------------------------------------------------------------------- */

/* The mean logprob of the tokens of an answer; NaN: not recorded. */
static double mean_logprob(const struct td_exchange *x)
{
    double sum = 0;
    int32_t i, n = 0;

    for (i = 0; x->logprobs && i < x->n_tokens; i++)
        if (isfinite(x->logprobs[i])) {
            sum += x->logprobs[i];
            n++;
        }
    return n ? sum / n : NAN;
}

/* The logprob that x gave to token `id` at position i; NaN: not known. For a token outside the
 * alternatives it is that of the last alternative, an upper bound, and *bound is set. */
static double logprob_of(const struct td_exchange *x, int32_t i, int32_t id, bool *bound)
{
    const struct td_alt *row = td_exchange_top_row(x, i);
    double last = NAN;
    int32_t k;

    *bound = false;
    if (x->token_ids[i] == id)
        return x->logprobs ? x->logprobs[i] : NAN;
    for (k = 0; row && k < x->top_k; k++) {
        if (row[k].id < 0 || !isfinite(row[k].logprob))
            continue;
        if (row[k].id == id)
            return row[k].logprob;
        last = row[k].logprob;
    }
    *bound = true;
    return last;
}

/* Add how far the logprobs of the baseline's tokens are apart, before position `upto` and at it. */
static void add_shifts(const struct td_exchange *good, const struct td_exchange *x, int32_t upto,
                       struct sum *s)
{
    int32_t i;
    bool bound;

    if (!good->logprobs || !x->logprobs)
        return;
    for (i = 0; i < upto && i < good->n_tokens && i < x->n_tokens; i++)
        if (isfinite(good->logprobs[i]) && isfinite(x->logprobs[i]))
            add(s, fabs((double)good->logprobs[i] - (double)x->logprobs[i]));
    if (i < good->n_tokens && i < x->n_tokens && good->token_ids && x->token_ids &&
        isfinite(good->logprobs[i])) {
        double lp = logprob_of(x, i, good->token_ids[i], &bound);

        if (isfinite(lp) && (!bound || lp < good->logprobs[i]))
            add(s, fabs(good->logprobs[i] - lp));
    }
}

/* ---- one side -------------------------------------------------------------------------------- */

struct sums {
    struct td_departure d;
    struct sum shift, unsure;
};

/* Compare one answer with the baseline's answers to its prompt, but refs[skip]. */
static void add_answer(const struct td_exchange *x, const struct td_xref *refs, size_t n,
                       size_t skip, const struct td_policy *policy, struct sums *s)
{
    struct td_fork f;
    const struct td_exchange *good = NULL;
    size_t i;
    double old;

    if (td_tokens_fork(x, refs, n, skip, &f)) {
        good = f.good;
        s->d.clear += f.gap > policy->clear_gap && f.at.position < f.good->n_tokens && td_tokens_greedy(x);
        add_shifts(f.good, x, f.at.unit == TD_UNIT_BYTES ? -1 : f.at.position, &s->shift);
    } else {
        for (i = 0; i < n && !good; i++)
            if (i != skip && !refs[i].x->error && td_tokens_compare(refs[i].x, x).equal)
                good = refs[i].x;
        if (!good)
            return;
        add_shifts(good, x, x->n_tokens, &s->shift);
    }
    s->d.prompts++;
    old = mean_logprob(good);
    if (!isnan(old) && !isnan(mean_logprob(x)))
        add(&s->unsure, old - mean_logprob(x));
}

/* Compare the first answer of one side to each prompt. Of the baseline it is compared with the
 * others. */
static struct td_departure depart(const struct td_groups *g, const struct td_policy *policy,
                                  enum td_role role, int round)
{
    struct sums s;
    size_t i, j;

    memset(&s, 0, sizeof s);
    for (i = 0; i < g->n; i++) {
        const struct td_prompt_group *p = &g->group[i];

        for (j = 0; j < p->n[role]; j++) {
            const struct td_xref *r = &p->by_role[role][j];

            if (r->x->error || (role != TD_NEW && r->round != round))
                continue;
            add_answer(r->x, p->by_role[TD_BASE], p->n[TD_BASE],
                       role == TD_BASE ? j : p->n[TD_BASE], policy, &s);
            break;
        }
    }
    s.d.shift = mean_of(&s.shift, MIN_POSITIONS);
    s.d.unsure = mean_of(&s.unsure, MIN_PROMPTS);
    return s.d;
}

/* ---- all sides ------------------------------------------------------------------------------- */

/* Is the mean over its limit, and surely over half of it? */
static bool is_beyond(const struct td_mean *m, double limit)
{
    return m->mean > limit && m->mean - 3 * m->error > limit / 2;
}

static void keep_larger(struct td_mean *most, const struct td_mean *m)
{
    if (!isnan(m->mean) && !(m->mean <= most->mean))
        *most = *m;
}

/* Does a live baseline depart from the recording by more than rounding explains? */
static bool is_damaged(const struct td_departure *z, const struct td_policy *policy)
{
    return (z->clear >= MIN_CLEAR &&
            (double)z->clear >= policy->clear_share * (double)z->prompts) ||
           is_beyond(&z->shift, policy->shift_max) || is_beyond(&z->unsure, policy->unsure_max);
}

void td_damage_measure(const struct td_groups *g, const struct td_policy *policy,
                       const struct td_tokens *t, struct td_damage *out)
{
    const struct td_departure *c = &out->candidate;
    size_t i;

    memset(out, 0, sizeof *out);
    out->candidate = depart(g, policy, TD_NEW, 0);
    out->noise.shift.mean = out->noise.unsure.mean = NAN;
    for (i = 0; i < t->n_noise; i++) {
        struct td_departure z = depart(g, policy, t->noise[i].role, t->noise[i].round);

        if (t->noise[i].role == TD_LIVE && !out->live.prompts && is_damaged(&z, policy))
            out->live = z;
        keep_larger(&out->noise.shift, &z.shift);
        keep_larger(&out->noise.unsure, &z.unsure);
        if (z.clear == 0)
            continue;
        out->clear_p =
            fmax(out->clear_p, td_stat_share_larger_p(c->clear, c->prompts, z.clear, z.prompts));
        if (z.clear * out->noise.prompts >= out->noise.clear * z.prompts) {
            out->noise.clear = z.clear;
            out->noise.prompts = z.prompts;
        }
    }
    out->shift_limit = fmax(policy->shift_max, policy->factor * out->noise.shift.mean);
    out->unsure_limit = fmax(policy->unsure_max, policy->factor * out->noise.unsure.mean);
    out->clear_beyond = c->clear >= MIN_CLEAR &&
                        (double)c->clear >= policy->clear_share * (double)c->prompts &&
                        out->clear_p < policy->tokens_alpha;
    out->shift_beyond = is_beyond(&c->shift, out->shift_limit);
    out->unsure_beyond = is_beyond(&c->unsure, out->unsure_limit);
}

bool td_damage_found(const struct td_damage *d)
{
    return d->clear_beyond || d->shift_beyond || d->unsure_beyond;
}

void td_damage_words(const struct td_damage *d, const struct td_policy *policy, struct td_buf *out)
{
    const struct td_departure *c = &d->candidate;
    const char *between = "";

    if (d->clear_beyond) {
        td_buf_addf(out,
                    "%zu of %zu prompts fork at a clear call, a gap over %.2f nats (limit %.3g %%)",
                    c->clear, c->prompts, policy->clear_gap, policy->clear_share * 100);
        between = "; ";
    }
    if (d->shift_beyond) {
        td_buf_addf(out, "%sin equal contexts logprobs are %.3g nats apart (limit %.3g)", between,
                    c->shift.mean, d->shift_limit);
        between = "; ";
    }
    if (d->unsure_beyond)
        td_buf_addf(out, "%sits own tokens are less likely by %.3g nats each (limit %.3g)", between,
                    c->unsure.mean, d->unsure_limit);
}
