/* fisher.c - Fisher's exact test.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/fisher.h"

#include <math.h>

static double ln_choose(size_t n, size_t k)
{
    return lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1);
}

/* That from `from` to `to` of those drawn are marked. */
static double between(size_t all, size_t marked, size_t n, size_t from, size_t to)
{
    const size_t others = all - marked, least = n > others ? n - others : 0, most = marked < n ? marked : n;
    double sum = 0;

    for (size_t i = from > least ? from : least; i <= to && i <= most; i++)
        sum += exp(ln_choose(marked, i) + ln_choose(others, n - i) - ln_choose(all, n));
    return sum > 1 ? 1 : sum;
}

double td_fisher_as_many(size_t all, size_t marked, size_t n, size_t k)
{
    return between(all, marked, n, k, n);
}

double td_fisher_as_few(size_t all, size_t marked, size_t n, size_t k)
{
    return between(all, marked, n, 0, k);
}
