/* tap_spent.h - how long the tap has worked in the server's threads beside what it records: where
 * operators are registered, weights repacked, graphs captured, instantiated, changed and destroyed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of it comes while a server starts. Calls of the server's hot path are not timed. Any thread;
 * lock-free, allocates nothing, keeps errno. The times of several threads add up. */
#ifndef TD_RECORDER_TAP_CORE_TAP_SPENT_H
#define TD_RECORDER_TAP_CORE_TAP_SPENT_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Around such a piece of work: the end takes what the begin gave. Pieces do not lie in each other. */
int64_t tap_spent_begin(void);
void tap_spent_end(int64_t begun);
/* Microseconds of this process since it began, rounded up. */
uint64_t tap_spent_us(void);

#pragma GCC visibility pop
#endif
