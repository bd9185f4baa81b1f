/* client_facts.h - section "tap" of the manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_FACTS_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_FACTS_H

#include "recorder/tap_client/client_state.h"

/* Facts present (false), and the reason why. */
void client_facts_without(struct td_writer *w, const char *reason);
/* Facts present, protocol, pid, library, build, mode, checkpoint, processes[]. The lock is held. */
void client_facts_write(const struct td_tap_client *c, struct td_writer *w);

#endif
