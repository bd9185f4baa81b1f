/* fake_hip.h - functions that lib_fake_hip.c and fake_hip/server.c share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HELPERS_FAKE_HIP_FAKE_HIP_H
#define TD_TESTS_HELPERS_FAKE_HIP_FAKE_HIP_H

#include "kernels/gpucode/kernel_list.h"

/* True with TD_FAKE_HIP_OLD=1: behave as HIP 5.2. */
int fake_hip_is_old(void);
/* The kernel behind a handle of hipModuleGetFunction, as its code object describes it; NULL:
 * unknown. */
const struct td_gpu_kernel *fake_hip_kernel(const void *function);
/* Return from a function of HIP: sets the thread's last error and returns result. */
int fake_hip_return(int result);

#endif
