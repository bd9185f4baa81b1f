/* recording_facts.h - the facts of a recording, for the fixture's manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORDING_FACTS_H
#define TD_RECORDER_RECORDING_FACTS_H

#include "recorder/recording.h"

/* Write what is known before the first request: host, suite, options, the server's command. */
void td_recording_facts_begin(struct td_recording *r);
/* Write what only the answers show: the server, its extras, its metrics. */
void td_recording_facts_end(struct td_recording *r);

#endif
