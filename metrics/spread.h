/* spread.h - the mean, the deviation and the percentiles of numbers, by the rules of each tool.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_METRICS_SPREAD_H
#define TD_METRICS_SPREAD_H

#include "metrics/terms.h"

#define TD_MAX_PERCENTILES 16

/* From 0 to 100. */
struct td_percentiles { double p[TD_MAX_PERCENTILES]; size_t n; };

/* Read "50,90,99.9". TD_EINVAL. */
int td_percentiles_parse(const char *text, struct td_percentiles *out, struct td_error *err);

struct td_spread {
    size_t n;
    double mean, std, min, max; /* NaN when n is 0; std of n values, not of n - 1 */
    double at[TD_MAX_PERCENTILES];
};

/* Percentiles of all tools but GuideLLM are linear between order statistics, as numpy's. GuideLLM's is the smallest
 * value at which the weights up to it reach the share.
 *   v      : [n], its order changes
 *   weight : [n] or NULL (each 1); values that weigh nothing are left out. Only GuideLLM's have any
 * TD_OK or TD_ENOMEM. */
int td_spread_of(enum td_dialect d, double *v, const double *weight, size_t n, const struct td_percentiles *p, struct td_spread *out);

#endif
