/* tap_arm.h - arm the tap and put it to sleep.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the tap's own thread. */
#ifndef TD_RECORDER_TAP_CORE_TAP_ARM_H
#define TD_RECORDER_TAP_CORE_TAP_ARM_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* Arm as the message asks. The tap is asleep, has memory, and no thread is inside
 * (tap_wait_idle()). Returns NULL, or a static sentence for the user: armed, but calls will not be
 * seen. */
const char *tap_arm(const struct tap_msg *m);
/* Go to sleep; fronts may send what they copied for wait_ms. Nothing when asleep. Threads of the
 * server may still be inside after it. */
void tap_disarm(enum tap_asleep why, int wait_ms);
/* Wait until no thread is inside. False: one still is after ms. */
bool tap_wait_idle(int ms);
/* Go to sleep if the recorder's heartbeat has stood still for TAP_DEAD_MS. */
void tap_check_heartbeat(void);
/* Number of the last arm; 0: none yet. */
uint32_t tap_last_generation(void);

#pragma GCC visibility pop
#endif
