/* gpu_session.h - open the pipeline when a GPU front is armed, look after it, and close it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a GPU front's struct tap_front call these, on the tap's thread. */
#ifndef TD_RECORDER_TAP_GPU_GPU_SESSION_H
#define TD_RECORDER_TAP_GPU_GPU_SESSION_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* An arm begins.
 *   why   : not NULL: the front cannot be armed, for this reason, which is returned
 *   guess : a context in which launches will come, or NULL: the first launch tells
 * Returns NULL: all is ready, and the front may call tap_gpu_watch_launches(true); else why not. */
const char *tap_gpu_session_begin(const char *why, void *(*guess)(void));
/* Open the flight recorder if this arm asked for it and the context is known. NULL, or why it
 * cannot be had. */
const char *tap_gpu_session_open_flight(void);
void tap_gpu_session_tick(void);      /* some times a second, while launches are watched */
/* Why the stage could not be opened after the arm began; NULL: it could. */
const char *tap_gpu_session_trouble(void);
/* The arm ends: launches are not watched any more, and what was recorded is sent, for at most
 * wait_ms. */
void tap_gpu_session_end(int wait_ms);
void tap_gpu_session_forked(void);    /* this is the child of a fork */

#pragma GCC visibility pop
#endif
