/* client_pump.h - the tap client's two threads, the heart and the pump.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heart moves the heartbeat, the pump empties the rings. The heart is a thread of its own
 * because it must not stop when the disk is slow: a tap that sees no heartbeat goes to sleep. */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_PUMP_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_PUMP_H

#include "recorder/tap_client/client_state.h"

int client_pump_start(struct td_tap_client *c, struct td_error *err);
/* End the threads, as far as they were started, and wait for them. */
void client_pump_stop(struct td_tap_client *c);

/* Read all that lies in the rings of a process that is to send no more, and its counters. What lay there,
 * and what its threads were about to send, fits into two rings: one that goes on is not read any further.
 * Nor is one that is not empty when td_tap_client_options.rest_ms have been spent here, or a moment after a
 * signal. The lock is held. */
void client_drain_all(struct td_tap_client *c, struct client_tap *tap);
/* The process is gone: read what it sent before, and count it as lost. The lock is held. */
void client_lose(struct td_tap_client *c, struct client_tap *tap);

#endif
