/* missing_ops.h - ops that are missing though nobody counted them as dropped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_MISSING_OPS_H
#define TD_RECORDER_TAP_CLIENT_MISSING_OPS_H

#include "recorder/tap_client/client_state.h"

/* A process of the server could not be connected or armed, or sent nothing: warn, and count it as
 * lost. Under c->lock, or before the threads start. */
void client_note_not_recorded(struct td_tap_client *c, pid_t pid, const char *why);

/* After the last op was read: count what a tap says it sent and what did not come, and, where every
 * step was asked for, processes that sent nothing and said why when they were armed. The threads
 * have ended. */
void client_note_missing_ops(struct td_tap_client *c);

#endif
