/* tap_time.h - the clock of the tap.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_TIME_H
#define TD_RECORDER_TAP_CORE_TAP_TIME_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* CLOCK_MONOTONIC in ns. Any thread; allocates nothing, does not wait, keeps errno. */
int64_t tap_now(void);
/* Sleep. Threads of the tap only, never a thread of the server. May change errno. */
void tap_sleep_ms(int ms);

#pragma GCC visibility pop
#endif
