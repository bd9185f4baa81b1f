/* cuda_front.h - does this process use CUDA?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_FRONT_H
#define TD_RECORDER_TAP_CUDA_CUDA_FRONT_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Has CUDA's driver loaded the tap? Then CUDA's front sees what runs on the GPU, and HIP's not.
 * Any thread. */
bool tap_cuda_injected(void);

#pragma GCC visibility pop
#endif
