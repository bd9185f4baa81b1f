/* gpu_launch_reach.h - whether a launch of any kernel is told of a piece of memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Any thread of the server; asks the driver how the kernel's parameters lie. */
#ifndef TD_RECORDER_TAP_GPU_GPU_LAUNCH_REACH_H
#define TD_RECORDER_TAP_GPU_GPU_LAUNCH_REACH_H

#include "recorder/tap/gpu/gpu_gemm.h"

#pragma GCC visibility push(hidden)

/* Were all parameters read, and does no aligned word of them point into [from, from + bytes)? An address
 * that a kernel takes out of memory is not seen: so this is for memory that nobody else writes as a rule. */
bool tap_gpu_launch_avoids(const struct tap_gpu_launch *l, uint64_t from, uint64_t bytes);

#pragma GCC visibility pop
#endif
