/* tap_times.h - the message TIMES: a window in which the kernels of a GPU are timed, which ends by
 * itself.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the tap's own thread. */
#ifndef TD_RECORDER_TAP_CORE_TAP_TIMES_H
#define TD_RECORDER_TAP_CORE_TAP_TIMES_H

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* Do what the message asks, and fill the reply's numbers. NULL, or why not. */
const char *tap_times_serve(const struct tap_msg *m, struct tap_msg *reply);
/* Close a window whose time is over. */
void tap_times_tick(void);
/* How long to wait for what comes next, of ms (-1: for ever), without missing the window's end. */
int tap_times_wait_ms(int ms);
/* Close the window, and forget what it holds. */
void tap_times_drop(void);
void tap_times_forget(void);          /* in the child of a fork */

#pragma GCC visibility pop
#endif
