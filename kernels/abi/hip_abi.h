/* hip_abi.h - the part of the HIP runtime's C ABI that Tapedeck uses, declared here so that it builds without HIP.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: hip_runtime_api.h of Debian's libamdhip64-dev 5.2.3 (tests/e2e/059-hip-abi compares), and of ROCm 5.3 to 6.3 where it says so. Error numbers and
 * function attributes that we use are those of CUDA (cuda_abi.h); so are the argument lists of what is SHARED there. A hipError_t is an int, a hipDeviceptr_t
 * (void *) a uint64_t, a handle a void *. Virtual memory is used where the device says that it has it, which came with 5.3, as did the layouts of
 * td_cuda_allocation and td_cuda_access; 5.2 has functions of these names and another layout, and does not say so. */
#ifndef TD_KERNELS_ABI_HIP_ABI_H
#define TD_KERNELS_ABI_HIP_ABI_H

#include "kernels/abi/cuda_abi.h"

/* hipDeviceAttribute_t: other numbers than CUDA's; unchanged from 5.2 to 6.3 */
enum td_hip_device_attribute {
    TD_HIP_DEV_L2_CACHE_SIZE = 19,
    TD_HIP_DEV_MAX_GRID_DIM_X = 29,
    TD_HIP_DEV_MAX_GRID_DIM_Y = 30,
    TD_HIP_DEV_MAX_GRID_DIM_Z = 31,
    TD_HIP_DEV_MAX_THREADS_PER_BLOCK = 56,
    TD_HIP_DEV_MULTIPROCESSOR_COUNT = 63,
    TD_HIP_DEV_MAX_SHARED_PER_BLOCK = 74,
    TD_HIP_DEV_WARP_SIZE = 87,
    TD_HIP_DEV_VIRTUAL_MEMORY = 89 /* since 5.3 */
};

enum { TD_HIP_PARAM_BUFFER_POINTER = 1, TD_HIP_PARAM_BUFFER_SIZE = 2, TD_HIP_PARAM_END = 3 }; /* words of `extra`; the end is not CUDA's */

/* hipDeviceProp_t: where gcnArchName[256] stands in it. A library before ROCm 6 has hipGetDeviceProperties; later ones have that, with the same layout,
 * and hipGetDevicePropertiesR0600, whose layout its name says. */
#define TD_HIP_PROPERTIES_BYTES 8192   /* room for either: 792, and 1472 in R0600 */
#define TD_HIP_PROPERTIES_GFX 396
#define TD_HIP_PROPERTIES_R0600_GFX 1160
#define TD_HIP_GFX_BYTES 256

#define TD_HIP_SHARED(X) \
    X(hipInit, init, (unsigned flags)) \
    X(hipDriverGetVersion, driver_get_version, (int *version)) \
    X(hipDeviceGet, device_get, (int *device, int ordinal)) \
    X(hipDeviceGetName, device_get_name, (char *name, int len, int device)) \
    X(hipDeviceGetAttribute, device_get_attribute, (int *value, int attribute, int device)) \
    X(hipMalloc, mem_alloc, (uint64_t *address, size_t bytes)) \
    X(hipFree, mem_free, (uint64_t address)) \
    X(hipMemcpyHtoD, copy_to_device, (uint64_t to, const void *from, size_t bytes)) \
    X(hipMemcpyDtoH, copy_to_host, (void *to, uint64_t from, size_t bytes)) \
    X(hipMemsetD8Async, set_8_async, (uint64_t to, unsigned char value, size_t n, void *stream)) \
    X(hipModuleLoadData, module_load, (void **module, const void *image)) \
    X(hipModuleUnload, module_unload, (void *module)) \
    X(hipModuleGetFunction, module_get_function, (void **function, void *module, const char *symbol)) \
    X(hipFuncGetAttribute, func_get_attribute, (int *value, int attribute, void *function)) \
    X(hipModuleLaunchKernel, launch, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
                                      void *stream, void **params, void **extra)) \
    X(hipStreamCreateWithFlags, stream_create, (void **stream, unsigned flags)) \
    X(hipStreamDestroy, stream_destroy, (void *stream)) \
    X(hipStreamSynchronize, stream_synchronize, (void *stream)) \
    X(hipEventCreateWithFlags, event_create, (void **event, unsigned flags)) \
    X(hipEventDestroy, event_destroy, (void *event)) \
    X(hipEventRecord, event_record, (void *event, void *stream)) \
    X(hipEventSynchronize, event_synchronize, (void *event)) \
    X(hipEventElapsedTime, event_elapsed, (float *ms, void *from, void *to))

#define TD_HIP_OWN(X) \
    X(hipSetDevice, set_device, (int device)) \
    X(hipGetDeviceProperties, get_properties, (void *properties, int device))

#define TD_HIP_TEXTS(X) \
    X(hipGetErrorName, get_error_name, (int result)) \
    X(hipGetErrorString, get_error_string, (int result))

#define TD_HIP_OWN_OPTIONAL(X) \
    X(hipGetDevicePropertiesR0600, get_properties_r0600, (void *properties, int device))

#define TD_HIP_MAPPING(X) \
    X(hipMemAddressReserve, address_reserve, (uint64_t *address, size_t bytes, size_t alignment, uint64_t hint, unsigned long long flags)) \
    X(hipMemAddressFree, address_free, (uint64_t address, size_t bytes)) \
    X(hipMemCreate, mem_create, (unsigned long long *handle, size_t bytes, const struct td_cuda_allocation *what, unsigned long long flags)) \
    X(hipMemRelease, mem_release, (unsigned long long handle)) \
    X(hipMemMap, mem_map, (uint64_t address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags)) \
    X(hipMemUnmap, mem_unmap, (uint64_t address, size_t bytes)) \
    X(hipMemSetAccess, mem_set_access, (uint64_t address, size_t bytes, const struct td_cuda_access *access, size_t n)) \
    X(hipMemGetAllocationGranularity, mem_granularity, (size_t *bytes, const struct td_cuda_allocation *what, int option))

#endif
