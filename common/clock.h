/* clock.h - time: a monotonic clock for intervals, a wall clock for stamps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_CLOCK_H
#define TD_COMMON_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define TD_NS_PER_S 1000000000LL
#define TD_NS_PER_MS 1000000LL

int64_t td_clock_mono_ns(void); /* CLOCK_MONOTONIC: never jumps; the clock of every t_ns in a fixture */
int64_t td_clock_wall_ns(void); /* CLOCK_REALTIME, since 1970 */
/* Sleep until the absolute monotonic time; returns early on a signal. */
void td_clock_sleep_until(int64_t mono_ns);
/* Format a wall-clock time: stamp "20261121T111730Z" for file names, iso "2026-11-21T11:17:30Z"
 * (ISO 8601). n >= 24. */
void td_clock_stamp(int64_t wall_ns, char *out, size_t n);
void td_clock_iso(int64_t wall_ns, char *out, size_t n);

#endif
