/* figures.c - the figures of a set of measured exchanges.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool in_part(const struct td_measured *x, const struct td_part *part)
{
    return !part || (x->concurrency >= part->concurrency && x->concurrency <= part->up_to && x->by_others == part->by_others &&
                     !strcmp(x->category, part->category));
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* How many numbers a term of a part is made of, and these: v and weight may be NULL. */
static size_t collect(const struct td_measured_set *m, const struct td_part *part, const struct td_term_def *def, double *v, double *weight)
{
    size_t i, j, n = 0;

    for (i = 0; i < m->n; i++) {
        const struct td_measured *x = &m->x[i];

        if (!in_part(x, part))
            continue;
        if (def->values == TD_VALUES_GAPS) {
            for (j = 0; j < x->n_gaps; j++, n++)
                if (v)
                    v[n] = x->gap[j];
        } else if (!isnan(x->span[def->term])) {
            if (v)
                v[n] = x->span[def->term];
            if (weight)
                weight[n] = def->values == TD_VALUES_TOKENS ? (double)(x->output_tokens - (def->term == TD_TERM_ITL)) : 1;
            n++;
        }
    }
    return n;
}

static int spread_of_term(const struct td_measured_set *m, const struct td_part *part, const struct td_term_def *def,
                          const struct td_percentiles *p, struct td_spread *out)
{
    const size_t n = collect(m, part, def, NULL, NULL);
    double *v = malloc((n ? n : 1) * sizeof *v), *weight = malloc((n ? n : 1) * sizeof *weight);
    int rc = v && weight ? TD_OK : TD_ENOMEM;

    if (!rc) {
        collect(m, part, def, v, weight);
        rc = td_spread_of(m->dialect, v, def->values == TD_VALUES_TOKENS ? weight : NULL, n, p, out);
    }
    free(v);
    free(weight);
    return rc;
}

/* ---- rates ----------------------------------------------------------------------------------- */

struct limits { int64_t from, to; };

/* AIPerf leaves out the times of those that failed. */
static void widen(struct limits *l, enum td_dialect d, const struct td_measured *x)
{
    if (x->error && d == TD_DIALECT_AIPERF)
        return;
    if (x->t_from_ns && (!l->from || x->t_from_ns < l->from))
        l->from = x->t_from_ns;
    if (x->t_to_ns > l->to)
        l->to = x->t_to_ns;
}

static void add_exchange(struct td_figures *s, const struct td_measured *x, enum td_dialect d, const struct td_goodput *g)
{
    int good;

    s->exchanges++;
    s->failed += x->error != NULL;
    if (!x->error) {
        s->input_tokens += x->prompt_tokens;
        s->output_tokens += x->output_tokens;
    }
    if (!g->asked)
        return;
    good = td_goodput_of(g, d, x);
    s->judged += good >= 0;
    s->good += good == 1;
}

static double per_s(int64_t n, double s)
{
    return s > 0 ? (double)n / s : NAN;
}

int td_figures_of(const struct td_measured_set *m, const struct td_part *part, const struct td_goodput *g,
                  const struct td_percentiles *p, struct td_figures *out, struct td_error *err)
{
    const struct td_term_def *def;
    struct limits l = {0, 0};
    size_t i;

    *out = (struct td_figures){0};
    for (i = 0; i < m->n; i++)
        if (in_part(&m->x[i], part)) {
            add_exchange(out, &m->x[i], m->dialect, g);
            widen(&l, m->dialect, &m->x[i]);
        }
    out->duration_s = l.from && l.to > l.from && !m->in_turns && !(part && part->by_others) ? td_seconds_between(l.from, l.to) : NAN;
    out->requests_per_s = per_s(out->exchanges - out->failed, out->duration_s);
    out->output_per_s = per_s(out->output_tokens, out->duration_s);
    out->tokens_per_s = per_s(out->input_tokens + out->output_tokens, out->duration_s);
    out->good_per_s = g->asked ? per_s(out->good, out->duration_s) : NAN;
    for (i = 0; (def = td_term_def(m->dialect, i)); i++)
        if (spread_of_term(m, part, def, p, &out->term[def->term]))
            return td_fail(err, TD_ENOMEM, "out of memory for the figures");
    return TD_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct td_part *x = a, *y = b;
    const int c = strcmp(x->category, y->category);

    if (c || x->by_others != y->by_others)
        return c ? c : x->by_others - y->by_others;
    return (x->concurrency > y->concurrency) - (x->concurrency < y->concurrency);
}

static struct td_part part_of(const struct td_measured *x)
{
    int32_t from = 1;

    if (!x->by_others || x->concurrency < 1)
        return (struct td_part){x->category, x->concurrency, x->concurrency, x->by_others};
    while (from <= x->concurrency / 2)
        from *= 2;
    return (struct td_part){x->category, from, 2 * (from - 1) + 1, true};
}

int td_parts_of(const struct td_measured_set *m, struct td_part **out, size_t *n, struct td_error *err)
{
    struct td_part *part = malloc((m->n ? m->n : 1) * sizeof *part);
    size_t i, kept = 0;

    if (!part)
        return td_fail(err, TD_ENOMEM, "out of memory for the figures");
    for (i = 0; i < m->n; i++)
        part[i] = part_of(&m->x[i]);
    qsort(part, m->n, sizeof *part, by_name);
    for (i = 0; i < m->n; i++)
        if (!i || by_name(&part[i], &part[i - 1]))
            part[kept++] = part[i];
    *out = part;
    *n = kept;
    return TD_OK;
}
