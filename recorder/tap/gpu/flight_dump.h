/* flight_dump.h - send the flight recorder's ring: op after op, oldest first, through the stage, as
 * recorded ops go.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the tap's thread, with the gate held and the server's context current. */
#ifndef TD_RECORDER_TAP_GPU_FLIGHT_DUMP_H
#define TD_RECORDER_TAP_GPU_FLIGHT_DUMP_H

#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

/* Stage what there is room for; the dump is over when the ring is empty. Does nothing unless a
 * trigger came. */
void tap_flight_dump_some(void);
void tap_flight_dump_clear(void);     /* at each arm */

#pragma GCC visibility pop
#endif
