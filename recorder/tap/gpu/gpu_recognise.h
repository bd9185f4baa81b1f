/* gpu_recognise.h - the start of the pipeline: a launch is recognised by its kernel's name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * recognised (gpu_recognise, gpu_kernels) -> sampled (gpu_gate, gpu_steps) -> copied (gpu_record,
 * gpu_copies) -> staged (gpu_stage, gpu_queue) -> sent (gpu_sender). What is not recorded may pass
 * the flight recorder's ring instead (flight_ring). Calls go from left to right only; the sender
 * reads the queue. */
#ifndef TD_RECORDER_TAP_GPU_GPU_RECOGNISE_H
#define TD_RECORDER_TAP_GPU_GPU_RECOGNISE_H

#include "recorder/tap/gpu/gpu_gemm.h"

#pragma GCC visibility push(hidden)

/* Before a launch, on a thread of the server inside the tap: count it by its kernel's name, and let
 * it into the gate if an adapter reads the kernel. A token for tap_gpu_gate_leave(); 0: nothing is
 * to be done after the launch. */
uint64_t tap_gpu_recognise(const struct tap_gpu_launch *l, const char *symbol);

#pragma GCC visibility pop
#endif
