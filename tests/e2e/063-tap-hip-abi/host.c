/* host.c - a program for AMD on a machine without such a GPU: what each call says, and what the last error is then.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kernels/abi/hip_abi.h"

int hipInit(unsigned flags), hipGetDeviceCount(int *n), hipSetDevice(int device), hipGetLastError(void), hipPeekAtLastError(void), hipMalloc(uint64_t *p, size_t n);
int hipDeviceReset(void), hipStreamDestroy(void *stream), hipGraphLaunch(void *graph, void *stream);
int hipLaunchKernel TD_HIP_STUB_ARGUMENTS;
int hipLaunchKernel_spt TD_HIP_STUB_ARGUMENTS;
int hipExtLaunchKernel TD_HIP_EXT_STUB_ARGUMENTS;
int hipLaunchCooperativeKernel TD_HIP_TOGETHER_ARGUMENTS;
int hipModuleLaunchKernel TD_HIP_MODULE_ARGUMENTS;
int TD_HIP_EXT_MANGLED TD_HIP_EXT_ARGUMENTS;
int TD_HIP_HCC_MANGLED TD_HIP_HCC_ARGUMENTS;

#define SAY(call) \
    do { \
        int rc = call; \
        printf("%d %d %s\n", rc, hipPeekAtLastError(), #call); \
        hipGetLastError(); \
    } while (0)

int main(void)
{
    static const struct td_hip_dim one = {1, 1, 1};
    static char stub;
    void *params[] = {&stub};
    uint64_t p;
    int n = -1;

    SAY(hipInit(0));
    SAY(hipGetDeviceCount(&n));
    printf("%d devices\n", n);
    SAY(hipSetDevice(0));
    SAY(hipMalloc(&p, 1));
    SAY(hipLaunchKernel(&stub, one, one, params, 0, NULL));
    SAY(hipLaunchKernel_spt(&stub, one, one, params, 0, NULL));
    SAY(hipExtLaunchKernel(&stub, one, one, params, 0, NULL, NULL, NULL, 0));
    SAY(hipLaunchCooperativeKernel(&stub, one, one, params, 0, NULL));
    SAY(hipModuleLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    SAY(TD_HIP_EXT_MANGLED(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL, NULL, NULL, 0));
    SAY(TD_HIP_HCC_MANGLED(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL, NULL, NULL));
    SAY(hipGraphLaunch(NULL, NULL));
    SAY(hipStreamDestroy(NULL));
    SAY(hipDeviceReset());
    return 0;
}
