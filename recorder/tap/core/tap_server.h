/* tap_server.h - the tap's own thread, which serves the recorder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_SERVER_H
#define TD_RECORDER_TAP_CORE_TAP_SERVER_H

#pragma GCC visibility push(hidden)

/* A front has seen a call: start the tap's thread if it does not run yet. Any thread of the server;
 * keeps errno. Starting allocates and creates a thread, once in a process; after that this is one
 * load. It belongs into the path that a front takes while awake (struct tap_front, set_awake). */
void tap_start_if_cold(void);

#pragma GCC visibility pop
#endif
