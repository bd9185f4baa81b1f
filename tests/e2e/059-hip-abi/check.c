/* check.c - our declarations of the HIP runtime beside those of HIP 5.2: compiling is the test.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include "kernels/abi/hip_abi.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs);

/* error numbers that driver_core.c knows as CUDA's; HIP has none for the rest of them */
SAME(TD_CUDA_SUCCESS, hipSuccess) SAME(TD_CUDA_INVALID_VALUE, hipErrorInvalidValue) SAME(TD_CUDA_OUT_OF_MEMORY, hipErrorOutOfMemory)
SAME(TD_CUDA_NO_DEVICE, hipErrorNoDevice) SAME(TD_CUDA_INVALID_DEVICE, hipErrorInvalidDevice) SAME(TD_CUDA_INVALID_IMAGE, hipErrorInvalidImage)
SAME(TD_CUDA_NO_BINARY_FOR_GPU, hipErrorNoBinaryForGpu) SAME(TD_CUDA_ECC_UNCORRECTABLE, hipErrorECCNotCorrectable) SAME(TD_CUDA_NOT_FOUND, hipErrorNotFound)
SAME(TD_CUDA_ILLEGAL_ADDRESS, hipErrorIllegalAddress) SAME(TD_CUDA_LAUNCH_OUT_OF_RESOURCES, hipErrorLaunchOutOfResources)
SAME(TD_CUDA_LAUNCH_TIMEOUT, hipErrorLaunchTimeOut) SAME(TD_CUDA_CONTEXT_IS_DESTROYED, hipErrorContextIsDestroyed) SAME(TD_CUDA_ASSERT, hipErrorAssert)
SAME(TD_CUDA_LAUNCH_FAILED, hipErrorLaunchFailure) SAME(TD_CUDA_NOT_SUPPORTED, hipErrorNotSupported)

#define DEVICE(ours, theirs) SAME(TD_HIP_DEV_##ours, hipDeviceAttribute##theirs)
DEVICE(L2_CACHE_SIZE, L2CacheSize) DEVICE(MAX_GRID_DIM_X, MaxGridDimX) DEVICE(MAX_GRID_DIM_Y, MaxGridDimY) DEVICE(MAX_GRID_DIM_Z, MaxGridDimZ)
DEVICE(MAX_THREADS_PER_BLOCK, MaxThreadsPerBlock) DEVICE(MULTIPROCESSOR_COUNT, MultiprocessorCount) DEVICE(MAX_SHARED_PER_BLOCK, MaxSharedMemoryPerBlock)
DEVICE(WARP_SIZE, WarpSize)
SAME(TD_HIP_DEV_VIRTUAL_MEMORY, hipDeviceAttributeMemoryPoolsSupported + 1) /* named so since 5.3 */
SAME(TD_CUDA_FUNC_MAX_THREADS_PER_BLOCK, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) SAME(TD_CUDA_FUNC_SHARED_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
SAME(TD_CUDA_FUNC_NUM_REGS, HIP_FUNC_ATTRIBUTE_NUM_REGS)

_Static_assert(HIP_LAUNCH_PARAM_BUFFER_POINTER == (void *)TD_HIP_PARAM_BUFFER_POINTER, "extra");
_Static_assert(HIP_LAUNCH_PARAM_BUFFER_SIZE == (void *)TD_HIP_PARAM_BUFFER_SIZE, "extra");
_Static_assert(HIP_LAUNCH_PARAM_END == (void *)TD_HIP_PARAM_END, "extra");

_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == TD_HIP_PROPERTIES_GFX, "gcnArchName");
_Static_assert(sizeof(((hipDeviceProp_t *)0)->gcnArchName) == TD_HIP_GFX_BYTES && sizeof(hipDeviceProp_t) <= TD_HIP_PROPERTIES_BYTES, "gcnArchName");

/* The layouts of td_cuda_allocation and td_cuda_access are those of 5.3 and later (ROCm/HIP, tags rocm-5.3.0 to rocm-6.2.2); 5.2 has the second one. */
SAME(TD_CUDA_ALLOCATION_PINNED, hipMemAllocationTypePinned) SAME(TD_CUDA_LOCATION_DEVICE, hipMemLocationTypeDevice)
SAME(TD_CUDA_ACCESS_READWRITE, hipMemAccessFlagsProtReadWrite) SAME(TD_CUDA_GRANULARITY_MINIMUM, hipMemAllocationGranularityMinimum)
_Static_assert(sizeof(struct td_cuda_access) == sizeof(hipMemAccessDesc) && offsetof(struct td_cuda_access, flags) == offsetof(hipMemAccessDesc, flags), "access");
