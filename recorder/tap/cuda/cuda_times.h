/* cuda_times.h - the share of kernels in the GPU's time, and which of them the tap records: what the
 * CUDA front answers to TIMES.
 * SPDX-License-Identifier: Apache-2.0
 *
 * From the tap's thread, asleep. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_TIMES_H
#define TD_RECORDER_TAP_CUDA_CUDA_TIMES_H

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* The members times_begin, times_end and times_get of struct tap_front. */
const char *tap_cuda_times_begin(void);
const char *tap_cuda_times_end(struct tap_msg *reply);
const char *tap_cuda_times_get(uint32_t number, struct tap_msg *reply);
void tap_cuda_times_drop(void);       /* the recorder is gone, or an arm begins */
void tap_cuda_times_forget(void);     /* in the child of a fork */

#pragma GCC visibility pop
#endif
