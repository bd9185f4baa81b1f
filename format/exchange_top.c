/* exchange_top.c - the alternatives of an answer: a row of them, and what all say together.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They are most of what an answer takes in memory, and hardly a row of them is ever looked at by itself. */
#include <math.h>
#include <stdlib.h>

#include "format/records.h"

static int compare_places(const void *a, const void *b)
{
    const int32_t p = *(const int32_t *)a, q = *(const int32_t *)b;

    return (p > q) - (p < q);
}

const struct td_alt *td_exchange_top_row(const struct td_exchange *x, int32_t i)
{
    const int32_t *found;

    if (!x->top || i < 0 || i >= x->n_tokens)
        return NULL;
    if (!x->top_summed)
        return x->top + (size_t)i * (size_t)x->top_k;
    found = bsearch(&i, x->top_at, (size_t)x->n_top_at, sizeof *x->top_at, compare_places);
    return found ? x->top + (size_t)(found - x->top_at) * (size_t)x->top_k : NULL;
}

/* Are all alternatives of a row equally likely? */
static void add_flatness(const struct td_alt *row, int32_t i, int32_t width, struct td_top_sum *sum)
{
    if (width < 3 || isnan(row[0].logprob) || isnan(row[2].logprob) || isinf(row[2].logprob))
        return;
    sum->rows++;
    if (fabsf(row[0].logprob - row[width - 1].logprob) < 1e-3f && sum->flat++ == 0)
        sum->first_flat = i;
}

struct td_top_sum td_exchange_top_sum(const struct td_exchange *x, int32_t n)
{
    struct td_top_sum sum = {.first_nan = -1, .first_flat = -1};
    int32_t i, k;

    if (x->top_summed)
        return x->top_sum;
    for (i = 0; x->top && i < n; i++) {
        const struct td_alt *row = x->top + (size_t)i * (size_t)x->top_k;

        for (k = 0; k < x->top_k; k++)
            if (isnan(row[k].logprob) && sum.n_nan++ == 0)
                sum.first_nan = i;
        add_flatness(row, i, x->top_k, &sum);
        sum.any |= x->top_k > 1 && (row[1].id >= 0 || isfinite(row[1].logprob));
    }
    return sum;
}

void td_exchange_drop_top(struct td_exchange *x)
{
    if (!x->top || x->top_summed)
        return;
    x->top_sum = td_exchange_top_sum(x, x->n_tokens);
    x->top_summed = true;
    free(x->top);
    x->top = NULL;
}
