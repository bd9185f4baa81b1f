/* read_rings.h - from the rings of a server's process into the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_READ_RINGS_H
#define TD_RECORDER_TAP_CLIENT_READ_RINGS_H

#include "recorder/tap_client/client_state.h"

#define CLIENT_DRAIN_MAX 256         /* records of a ring in one go, while others wait for the
                                        lock */

/* Read records from the rings of a process into the writer. Returns how many: 0, nothing is left.
 * The lock is held. */
int client_drain(struct td_tap_client *c, struct client_tap *tap);
/* Read nothing more from a ring. why : "a ring ..." */
void client_ring_break(struct td_tap_client *c, const struct client_tap *tap, struct client_ring *r, const char *why);
/* The share of the process's fullest ring that is in use, 0 to 1. */
double client_fullest(const struct client_tap *tap);

#endif
