/* cupti_times.h - a window in which CUPTI notes how long each kernel ran.
 * SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI writes a record for each kernel into buffers that the tap hands out. All of them are mapped
 * when the first window opens; what does not fit is lost, and counted. They stay mapped for the
 * process's life, because CUPTI may keep one. While the window is open the tap also has CUPTI's one
 * place for callbacks: a profiler that has it is left in peace, and none comes in between.
 *
 * Source: cupti_activity.h of CUDA 13.0 and 13.5. All from the tap's thread, asleep. */
#ifndef TD_RECORDER_TAP_CUDA_CUPTI_TIMES_H
#define TD_RECORDER_TAP_CUDA_CUPTI_TIMES_H

#include <stdbool.h>

#include "recorder/tap/gpu/gpu_times.h"

#pragma GCC visibility push(hidden)

/* Open the window; tap_cuda_load() has succeeded. NULL, or why not: a sentence. */
const char *tap_cupti_times_open(void);
bool tap_cupti_times_is_open(void);
/* Close it, wait until what was launched has run, and add what it holds to t (NULL: drop it).
 * Nothing if it is not open. */
void tap_cupti_times_close(struct tap_gpu_times *t);
void tap_cupti_times_forget(void);    /* in the child of a fork */

#pragma GCC visibility pop
#endif
