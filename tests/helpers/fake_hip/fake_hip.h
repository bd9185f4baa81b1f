/* fake_hip.h - what the parts of the fake HIP runtime share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HELPERS_FAKE_HIP_FAKE_HIP_H
#define TD_TESTS_HELPERS_FAKE_HIP_FAKE_HIP_H

#include "kernels/gpucode/kernel_list.h"

int fake_hip_is_old(void);
/* The kernel that a handle of hipModuleGetFunction stands for, as its code object describes it; NULL: none. */
const struct td_gpu_kernel *fake_hip_kernel(const void *function);
/* Leave a function of HIP: it sets the thread's last error. */
int fake_hip_return(int result);

#endif
