/* cuda_callback.h - what happens in CUPTI's callback: a call of the driver is read as a launch, and
 * enters the pipeline.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_CALLBACK_H
#define TD_RECORDER_TAP_CUDA_CUDA_CALLBACK_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* CUPTI's callback, on the server's thread that makes the call: once before it, once after it. */
void tap_cuda_on_call(void *user, int domain, uint32_t cbid, const void *data);
void tap_cuda_callback_forget(void);  /* in the child of a fork */

#pragma GCC visibility pop
#endif
