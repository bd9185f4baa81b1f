/* flight_watch.c - when the flight recorder is asked to keep what it has, and what the recorded ops say of themselves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"
#include "recorder/record.h"
#include "wire/collapse.h"

/* Once a recording: what follows the first answer that collapsed is more of the same. */
bool td_flight_watch(struct td_tap_client *l, const struct td_record_options *opt, const struct td_exchange *x)
{
    struct td_collapse c;

    if (!l || !opt->flight)
        return false;
    td_collapse_check(x, NULL, &c);
    if (!c.hard)
        return false;
    td_log(TD_LOG_WARN, "record", "%s, repeat %d, collapsed: %s", x->prompt_id, x->repeat, c.why);
    return td_tap_client_keep(l);
}

void td_flight_say(struct td_tap_client *l, bool interrupted)
{
    char sentence[1200];

    if (td_tap_client_first_bad(l, sentence, sizeof sentence))
        td_log(TD_LOG_WARN, "record", "%s", sentence);
    if (!interrupted && td_tap_client_layers_said(l, sentence, sizeof sentence))
        td_log(TD_LOG_WARN, "record", "%s", sentence);
}
