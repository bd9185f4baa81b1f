/* samples.h - numbers of which only the order is asked: a choice of bounded size, and its quantiles.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_SAMPLES_H
#define TD_COMMON_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#define TD_SAMPLES_MAX 32768 /* the middle of so many is within 0.6 % of the ranks of all, 95 times in 100 */

struct td_samples { double *v; size_t n, cap; int64_t seen, lost; }; /* a random choice of those seen; zeroed: none */

/* Keep v, or, when there is no room, keep each of all values with the same chance. What memory lacks for
 * is counted in seen and in lost, and not kept: then quantiles are not those of all. */
void td_samples_add(struct td_samples *s, double v);
/* The value at a share q of the ranks, 0 to 1, between two of them in proportion, as numpy's percentile has it. NaN
 * without samples. Sorts. */
double td_samples_quantile(struct td_samples *s, double q);
void td_samples_release(struct td_samples *s);

#endif
