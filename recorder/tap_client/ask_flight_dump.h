/* ask_flight_dump.h - ask the taps to dump the rings of their flight recorders.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_ASK_FLIGHT_DUMP_H
#define TD_RECORDER_TAP_CLIENT_ASK_FLIGHT_DUMP_H

#include "recorder/tap_client/client_state.h"

/* Ask every armed process. False: none could; with *busy set, because another message is on its
 * way: ask again. Not under the lock. */
bool client_dump_flight(struct td_tap_client *c, enum tap_dump_reason why, bool *busy);
/* Do so if the signal was sent since the last call (td_tap_client_options.dump_asked). */
void client_dump_if_asked(struct td_tap_client *c);

#endif
