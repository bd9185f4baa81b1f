/* quantile.c - quantiles of numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/quantile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void td_stat_sort(double *x, size_t n)
{
    if (n)
        qsort(x, n, sizeof *x, by_value);
}

double td_stat_quantile_sorted(const double *x, size_t n, double q)
{
    double at = q * (double)(n ? n - 1 : 0);
    size_t i = (size_t)at;

    if (!n)
        return NAN;
    if (i + 1 >= n)
        return x[n - 1];
    return x[i] + (at - (double)i) * (x[i + 1] - x[i]);
}

double td_stat_quantile(const double *x, size_t n, double q)
{
    double *s = n ? malloc(n * sizeof *s) : NULL, v;

    if (!s)
        return NAN;
    memcpy(s, x, n * sizeof *s);
    td_stat_sort(s, n);
    v = td_stat_quantile_sorted(s, n, q);
    free(s);
    return v;
}

double td_stat_median(const double *x, size_t n)
{
    return td_stat_quantile(x, n, 0.5);
}
