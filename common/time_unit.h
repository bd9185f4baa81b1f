/* time_unit.h - units of time as a person writes them behind a number: 90s, 15m, 2h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_TIME_UNIT_H
#define TD_COMMON_TIME_UNIT_H

/* Seconds of "s", "ms", "m", "min", "h"; of "", which is seconds, too. 0: it is no unit. */
double td_time_unit(const char *name);

#endif
