/* gpu_recognise.h - the start of the GPU pipeline: a launch is recognised by its kernel's name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline, which calls go down and never up:
 *   recognised  gpu_recognise, gpu_kernels, gpu_gemm   which kernel, and which GEMM, is it?
 *   sampled     gpu_gate, gpu_steps, gpu_step_finder   is it recorded, and if not, why not?
 *   copied      gpu_record, gpu_copies, gpu_weight_*   its operands go into a ring on the device
 *   staged      gpu_stage, gpu_queue                   from there to the host, with a description
 *   sent        gpu_sender, gpu_op                     launches become ops; the core sends them
 * What is not recorded may pass the flight recorder's ring instead (flight_ring, flight_dump).
 *
 * The threads:
 *   a thread of the server  comes by at each launch, goes down the pipeline to the stage, and hands
 *                           over what was staged at the end of a step. It allocates nothing and
 *                           never waits for the GPU.
 *   the sender              reads the queue and the mirror of the stage; makes no CUDA call.
 *   the tap's thread        arms and disarms (gpu_session), allocates, and hands over what was
 *                           staged when the server is idle. */
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
