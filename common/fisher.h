/* fisher.h - Fisher's exact test: does a share differ from another by chance?
 * SPDX-License-Identifier: Apache-2.0
 *
 * R. A. Fisher, The Logic of Inductive Inference, 1935; scipy.stats.fisher_exact gives the same numbers. */
#ifndef TD_COMMON_FISHER_H
#define TD_COMMON_FISHER_H

#include <stddef.h>

/* Of `all` things so many are marked, and n are drawn at random: how likely are as many marked ones among these as k, or more?
 * marked and n are at most all. */
double td_fisher_as_many(size_t all, size_t marked, size_t n, size_t k);
/* As few as k, or fewer? */
double td_fisher_as_few(size_t all, size_t marked, size_t n, size_t k);

#endif
