/* cpu_probe.h - how fast this machine computes just now.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A processor that is clocked lower, or that other programs use too, makes a server slower that is no slower. No fact of the machine tells
 * that for certain, so a fixed computation is timed: what it takes is what any other computation would meet. */
#ifndef TD_COMMON_CPU_PROBE_H
#define TD_COMMON_CPU_PROBE_H

/* Compute for some 30 to 60 ms. Returns what that took, in ms of wall-clock time. */
double td_cpu_probe_ms(void);

#endif
