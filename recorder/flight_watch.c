/* flight_watch.c - watch for what the flight recorder should dump.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/flight_watch.h"

#include "common/log.h"
#include "wire/collapse.h"

bool td_flight_watch_answer(struct td_tap_client *c, const struct td_exchange *x)
{
    struct td_collapse found;

    td_collapse_check(x, NULL, &found);
    if (!found.hard)
        return false;
    td_log(TD_LOG_WARN, "record", "%s, repeat %d, collapsed: %s", x->prompt_id, x->repeat,
           found.why);
    return td_tap_client_dump_flight(c);
}

void td_flight_watch_report(struct td_tap_client *c, bool interrupted)
{
    char sentence[1200];

    if (td_tap_client_first_bad(c, sentence, sizeof sentence))
        td_log(TD_LOG_WARN, "record", "%s", sentence);
    if (!interrupted && td_tap_client_report_layers(c, sentence, sizeof sentence))
        td_log(TD_LOG_WARN, "record", "%s", sentence);
}
