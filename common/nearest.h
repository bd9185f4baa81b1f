/* nearest.h - "did you mean": the word that a mistyped one most likely was.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_NEAREST_H
#define TD_COMMON_NEAREST_H

#include <stddef.h>

/* How far apart two words are: 0 when they are equal; letters added, left out, exchanged or
 * swapped with their neighbour count 1 each; 1 when `given` is the beginning of `word`. 99: not
 * alike at all. */
int td_nearest_distance(const char *given, const char *word);
/* May a word at this distance be proposed for `given`? Of short words little may differ. */
int td_nearest_fits(const char *given, int distance);
/* The nearest of n words that may be proposed, or NULL. */
const char *td_nearest(const char *given, const char *const *words, size_t n);

#endif
