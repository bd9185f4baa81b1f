/* cuda_load.h - find CUDA's driver and CUPTI in a process that uses CUDA.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_LOAD_H
#define TD_RECORDER_TAP_CUDA_CUDA_LOAD_H

#include "kernels/abi/cupti_abi.h"
#include "recorder/tap/gpu/gpu_driver.h"

#pragma GCC visibility push(hidden)

struct tap_cuda_cupti {
    TD_CUPTI_NEEDED(TAP_GPU_MEMBER) TD_CUPTI_OPTIONAL(TAP_GPU_MEMBER)
    TD_CUPTI_TIMES(TAP_GPU_MEMBER)
};
extern struct tap_cuda_cupti tap_cupti;

/* Fill tap_driver, once, at the process's start. Returns NULL, or the reason why not. */
const char *tap_cuda_load_driver(void);
/* Fill tap_driver and tap_cupti, once. Returns NULL, or the reason why not. From the tap's thread,
 * or at the process's start. */
const char *tap_cuda_load(void);
/* The path of the library whose kernels an adapter knows best, if the process has one; else of the
 * driver: into library[n]. */
void tap_cuda_library(char *library, size_t n);

#pragma GCC visibility pop
#endif
