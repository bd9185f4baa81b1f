/* flight_watch.h - watch for what the flight recorder should dump.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_FLIGHT_WATCH_H
#define TD_RECORDER_FLIGHT_WATCH_H

#include "format/records.h"
#include "recorder/tap_client/tap_client.h"

/* If this answer collapsed, log how, and have the flight recorder dump what led to it. True: it is
 * being dumped. Call it until it returns true: what follows the first collapsed answer is more of
 * the same. */
bool td_flight_watch_answer(struct td_tap_client *c, const struct td_exchange *x);

/* Log the first bad op and, unless the recording was interrupted, what --layers did not find. */
void td_flight_watch_report(struct td_tap_client *c, bool interrupted);

#endif
