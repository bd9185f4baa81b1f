/* cupti_watch.h - CUPTI's callbacks on and off.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Subscribing takes 12 us in a live server, unsubscribing 6 us, any number of times. All of it from
 * the tap's thread, or at the process's start. */
#ifndef TD_RECORDER_TAP_CUDA_CUPTI_WATCH_H
#define TD_RECORDER_TAP_CUDA_CUPTI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef void tap_cupti_callback(void *user, int domain, uint32_t cbid, const void *data);

/* Have CUPTI call `callback` around launches, and around calls that make, change or destroy graphs
 * if graphs are watched. NULL: done, or done before; else why not, a sentence. */
const char *tap_cupti_watch(tap_cupti_callback *callback);
void tap_cupti_unwatch(void);
/* Is the place the tap's? */
bool tap_cupti_is_watching(void);
/* Take the place and be called by nothing, so that no other profiler has it; tap_cupti_unwatch() gives
 * it back. NULL: the tap has it, or had it before; else why not, a sentence. */
const char *tap_cupti_hold(void);
void tap_cupti_watch_forget(void);    /* in the child of a fork */

#pragma GCC visibility pop
#endif
