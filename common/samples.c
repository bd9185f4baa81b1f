/* samples.c - numbers of which only the order is asked: a choice of bounded size, and its quantiles.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/samples.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/quantile.h"

/* A number below n, another one for each i. */
static size_t pick(int64_t i, int64_t n)
{
    uint64_t x = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((x ^ x >> 31) % (uint64_t)n);
}

void td_samples_add(struct td_samples *s, double v)
{
    size_t at = s->n;

    s->seen++;
    if (s->n == TD_SAMPLES_MAX)
        at = pick(s->seen, s->seen);
    else if (td_array_grow(&s->v, s->n, &s->cap, sizeof *s->v, TD_SAMPLES_MAX)) {
        s->lost++;
        return;
    }
    if (at < TD_SAMPLES_MAX)
        s->v[at] = v;
    s->n += s->n < TD_SAMPLES_MAX;
}

double td_samples_quantile(struct td_samples *s, double q)
{
    td_stat_sort(s->v, s->n);
    return td_stat_quantile_sorted(s->v, s->n, q);
}

void td_samples_release(struct td_samples *s)
{
    free(s->v);
    *s = (struct td_samples){0};
}
