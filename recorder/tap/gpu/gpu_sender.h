/* gpu_sender.h - the thread that sends what has come from the device: ops, weights, steps, names of
 * kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It reads the queue and the stage's mirror and makes no CUDA call. It may wait for room in the
 * recorder's ring; then the stage's ring fills up, and launches are dropped and counted. Everything
 * here is for the tap's thread. */
#ifndef TD_RECORDER_TAP_GPU_GPU_SENDER_H
#define TD_RECORDER_TAP_GPU_GPU_SENDER_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* For this arm; false: no thread, or the last arm's work goes on. */
bool tap_gpu_sender_start(void);
bool tap_gpu_sender_is_busy(void);    /* it has an arm's work */
/* Send what there is, for at most so long; the rest is dropped. */
void tap_gpu_sender_stop(int wait_ms);
void tap_gpu_sender_forget(void);     /* in the child of a fork */

#pragma GCC visibility pop
#endif
