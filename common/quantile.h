/* quantile.h - quantiles of numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_QUANTILE_H
#define TD_COMMON_QUANTILE_H

#include <stddef.h>

/* Quantile by linear interpolation between order statistics (Hyndman and Fan's type 7, as
 * numpy). NaN when n is 0. x holds no NaN; q is from 0 to 1. */
double td_stat_quantile(const double *x, size_t n, double q);
double td_stat_median(const double *x, size_t n);
/* The same of numbers that are sorted upwards. */
double td_stat_quantile_sorted(const double *x, size_t n, double q);
/* Sort upwards. */
void td_stat_sort(double *x, size_t n);

#endif
