/* recording_gpu_time.h - the share of kernels in the GPU's time: a few requests of its own, at the
 * end of a recording.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORDING_GPU_TIME_H
#define TD_RECORDER_RECORDING_GPU_TIME_H

#include "recorder/recording.h"

/* Have the taps time the GPU's kernels while a few requests run, after all others. Nothing without a
 * tap in a process with an NVIDIA GPU, with --gpu-time off, or with --launches off. What goes wrong
 * with it is said in the summary, and spoils no recording; TD_E*: an exchange could not be written. */
int td_recording_gpu_time(struct td_recording *r, struct td_error *err);

#endif
