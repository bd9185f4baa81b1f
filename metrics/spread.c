/* spread.c - the mean, the deviation and the percentiles of numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/spread.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/quantile.h"

int td_percentiles_parse(const char *text, struct td_percentiles *out, struct td_error *err)
{
    char *end;

    out->n = 0;
    for (;; text = end + 1) {
        const double p = strtod(text, &end);

        if (end == text || (*end && *end != ',') || !(p >= 0 && p <= 100) || out->n == TD_MAX_PERCENTILES)
            return td_fail(err, TD_EINVAL, "--percentiles: up to %d numbers from 0 to 100 with commas are due, such as 50,90,99.9",
                           TD_MAX_PERCENTILES);
        out->p[out->n++] = p;
        if (!*end)
            return TD_OK;
    }
}

struct weighted { double v, weight; };

static int by_value(const void *a, const void *b)
{
    const struct weighted *x = a, *y = b;

    return (x->v > y->v) - (x->v < y->v);
}

static void mean_and_deviation(const struct weighted *w, size_t n, double total, struct td_spread *out)
{
    size_t i;

    out->mean = out->std = 0;
    for (i = 0; i < n; i++)
        out->mean += w[i].v * w[i].weight;
    out->mean /= total;
    for (i = 0; i < n; i++)
        out->std += (w[i].v - out->mean) * (w[i].v - out->mean) * w[i].weight;
    out->std = sqrt(out->std / total);
}

/* GuideLLM: equal values are one; the shares are summed up one after the other. */
static double smallest_that_reaches(const struct weighted *w, size_t n, double total, double q)
{
    double sum = 0, weight;
    size_t i, j;

    for (i = 0; i < n; i = j) {
        for (weight = 0, j = i; j < n && w[j].v <= w[i].v; j++)
            weight += w[j].weight;
        sum += weight / total;
        if (sum >= q)
            break;
    }
    return w[i < n ? i : n - 1].v;
}

int td_spread_of(enum td_dialect d, double *v, const double *weight, size_t n, const struct td_percentiles *p, struct td_spread *out)
{
    struct weighted *w;
    double total = 0;
    size_t i, kept = 0;

    *out = (struct td_spread){.n = n, .mean = NAN, .std = NAN, .min = NAN, .max = NAN};
    for (i = 0; i < p->n; i++)
        out->at[i] = NAN;
    w = n ? malloc(n * sizeof *w) : NULL;
    if (n && !w)
        return TD_ENOMEM;
    for (i = 0; i < n; i++) {
        w[kept] = (struct weighted){v[i], weight ? weight[i] : 1};
        total += w[kept].weight;
        kept += w[kept].weight > 0;
    }
    if (kept) {
        qsort(w, kept, sizeof *w, by_value);
        for (i = 0; i < kept; i++)
            v[i] = w[i].v;
        mean_and_deviation(w, kept, total, out);
        out->min = w[0].v;
        out->max = w[kept - 1].v;
        for (i = 0; i < p->n; i++)
            out->at[i] = d == TD_DIALECT_GUIDELLM ? smallest_that_reaches(w, kept, total, p->p[i] / 100)
                                                  : td_stat_quantile_sorted(v, kept, p->p[i] / 100);
    }
    out->n = kept;
    free(w);
    return TD_OK;
}
