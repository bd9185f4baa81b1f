/* hip_abi.h - the part of the HIP runtime's binary interface (AMD GPUs) that Tapedeck uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Declared here so that Tapedeck builds without ROCm. Source: hip_runtime_api.h and hip_ext.h of HIP
 * 5.2.3 (Debian's libamdhip64-dev; tests/e2e/059-hip-abi and 063-tap-hip-abi compare), and, where a
 * comment says so, ROCm/HIP 5.3 to 6.3 and ROCm/rocm-systems up to 7. Error numbers, function
 * attributes and the flags of memory, streams, events and captures are CUDA's numbers (cuda_abi.h).
 * A hipError_t is an int, a hipDeviceptr_t (void *) a uint64_t, a handle a void *.
 *
 * Virtual memory is used where the device reports that it has it, since 5.3; td_cuda_allocation and
 * td_cuda_access have the layouts of 5.3. HIP 5.2 has functions of these names with another layout,
 * and its devices do not report virtual memory. */
#ifndef TD_KERNELS_ABI_HIP_ABI_H
#define TD_KERNELS_ABI_HIP_ABI_H

#include "kernels/abi/cuda_abi.h"

enum { TD_HIP_ERROR_UNKNOWN = 999, TD_HIP_COPY_ON_DEVICE = 3 /* hipMemcpyDeviceToDevice */ };

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

/* The words that may stand in a launch's `extra`; the end is not CUDA's. */
enum { TD_HIP_PARAM_BUFFER_POINTER = 1, TD_HIP_PARAM_BUFFER_SIZE = 2, TD_HIP_PARAM_END = 3 };
#define TD_HIP_STREAM_LEGACY ((void *)1) /* since HIP 6.1 */
#define TD_HIP_STREAM_PER_THREAD ((void *)2)

/* hipDeviceProp_t: where gcnArchName[256] stands in it. A library before ROCm 6 has
 * hipGetDeviceProperties; later ones have that function with the same layout, and also
 * hipGetDevicePropertiesR0600 with the layout of ROCm 6. */
#define TD_HIP_PROPERTIES_BYTES 8192   /* room for either struct: 792 bytes, and 1472 in R0600 */
#define TD_HIP_PROPERTIES_GFX 396
#define TD_HIP_PROPERTIES_R0600_GFX 1160
#define TD_HIP_GFX_BYTES 256

struct td_hip_dim { uint32_t x, y, z; }; /* dim3; passed by value */

struct td_hip_stub_config {            /* hipLaunchConfig_t, since HIP 6.5 */
    struct td_hip_dim grid, block;
    size_t shared_bytes;
    void *stream, *attributes;
    unsigned n_attributes;
};
struct td_hip_config {                 /* HIP_LAUNCH_CONFIG, since HIP 6.5 */
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned n_attributes;
};

/* ---- functions: X(name in the library, member, arguments) ------------------------------------ */

/* Memory, streams and events, for replay's driver and for the tap. */
#define TD_HIP_BASIC(X) \
    X(hipMalloc, mem_alloc, (uint64_t *address, size_t bytes)) \
    X(hipStreamCreateWithFlags, stream_create, (void **stream, unsigned flags)) \
    X(hipEventCreateWithFlags, event_create, (void **event, unsigned flags)) \
    X(hipEventRecord, event_record, (void *event, void *stream))

#define TD_HIP_SET_DEVICE(X) X(hipSetDevice, set_device, (int device))

/* ---- what replay's driver needs -------------------------------------------------------------- */

/* The same members with the same arguments as TD_CUDA_SHARED. */
#define TD_HIP_SHARED(X) \
    TD_HIP_BASIC(X) \
    X(hipInit, init, (unsigned flags)) \
    X(hipDriverGetVersion, driver_get_version, (int *version)) \
    X(hipDeviceGet, device_get, (int *device, int ordinal)) \
    X(hipDeviceGetName, device_get_name, (char *name, int len, int device)) \
    X(hipDeviceGetAttribute, device_get_attribute, (int *value, int attribute, int device)) \
    X(hipFree, mem_free, (uint64_t address)) \
    X(hipMemcpyHtoD, copy_to_device, (uint64_t to, const void *from, size_t bytes)) \
    X(hipMemcpyDtoH, copy_to_host, (void *to, uint64_t from, size_t bytes)) \
    X(hipMemcpyDtoDAsync, copy_within, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
    X(hipMemsetD8Async, set_8_async, (uint64_t to, unsigned char value, size_t n, void *stream)) \
    X(hipModuleLoadData, module_load, (void **module, const void *image)) \
    X(hipModuleUnload, module_unload, (void *module)) \
    X(hipModuleGetFunction, module_get_function, (void **function, void *module, \
                                                  const char *symbol)) \
    X(hipFuncGetAttribute, func_get_attribute, (int *value, int attribute, void *function)) \
    X(hipModuleLaunchKernel, launch, (void *function, unsigned gx, unsigned gy, unsigned gz, \
                                      unsigned bx, unsigned by, unsigned bz, \
                                      unsigned shared_bytes, void *stream, void **params, \
                                      void **extra)) \
    X(hipStreamDestroy, stream_destroy, (void *stream)) \
    X(hipStreamSynchronize, stream_synchronize, (void *stream)) \
    X(hipEventDestroy, event_destroy, (void *event)) \
    X(hipEventSynchronize, event_synchronize, (void *event)) \
    X(hipEventElapsedTime, event_elapsed, (float *ms, void *from, void *to))

#define TD_HIP_OWN(X) \
    TD_HIP_SET_DEVICE(X) \
    X(hipGetDeviceProperties, get_properties, (void *properties, int device))

/* Functions that return a text (const char *). */
#define TD_HIP_TEXTS(X) \
    X(hipGetErrorName, get_error_name, (int result)) \
    X(hipGetErrorString, get_error_string, (int result))

/* The members are NULL with an older runtime. */
#define TD_HIP_OWN_OPTIONAL(X) \
    X(hipGetDevicePropertiesR0600, get_properties_r0600, (void *properties, int device))

/* The same members with the same arguments as TD_CUDA_PINNING. */
#define TD_HIP_PINNING(X) \
    X(hipHostRegister, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(hipHostUnregister, host_unregister, (void *p)) \
    X(hipMemcpyHtoDAsync, copy_to_device_async, (uint64_t to, const void *from, size_t bytes, void *stream)) \
    X(hipMemcpyDtoHAsync, copy_to_host_async, (void *to, uint64_t from, size_t bytes, void *stream))

/* Virtual memory: the same members with the same arguments as TD_CUDA_MAPPING. */
#define TD_HIP_MAPPING(X) \
    X(hipMemAddressReserve, address_reserve, (uint64_t *address, size_t bytes, \
                                              size_t alignment, uint64_t hint, \
                                              unsigned long long flags)) \
    X(hipMemAddressFree, address_free, (uint64_t address, size_t bytes)) \
    X(hipMemCreate, mem_create, (unsigned long long *handle, size_t bytes, \
                                 const struct td_cuda_allocation *what, \
                                 unsigned long long flags)) \
    X(hipMemRelease, mem_release, (unsigned long long handle)) \
    X(hipMemMap, mem_map, (uint64_t address, size_t bytes, size_t offset, \
                           unsigned long long handle, unsigned long long flags)) \
    X(hipMemUnmap, mem_unmap, (uint64_t address, size_t bytes)) \
    X(hipMemSetAccess, mem_set_access, (uint64_t address, size_t bytes, \
                                        const struct td_cuda_access *access, size_t n)) \
    X(hipMemGetAllocationGranularity, mem_granularity, (size_t *bytes, \
                                                        const struct td_cuda_allocation *what, \
                                                        int option))

/* ---- what the tap needs ---------------------------------------------------------------------- */

#define TD_HIP_TAP_NEEDED(X) \
    TD_HIP_BASIC(X) \
    TD_HIP_SET_DEVICE(X) \
    X(hipGetDevice, get_device, (int *device)) \
    X(hipPeekAtLastError, peek_error, (void)) \
    X(hipGetLastError, clear_error, (void)) \
    X(hipHostRegister, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(hipHostGetDevicePointer, host_device_pointer, (uint64_t *address, void *p, \
                                                     unsigned flags)) \
    X(hipMemcpyDtoDAsync, copy_on_device, (uint64_t to, uint64_t from, size_t bytes, \
                                           void *stream)) \
    X(hipMemcpyDtoHAsync, copy_to_host, (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(hipMemcpy2DAsync, copy_2d, (uint64_t to, size_t to_pitch, uint64_t from, \
                                  size_t from_pitch, size_t width_bytes, size_t height, \
                                  int kind, void *stream)) \
    X(hipStreamWaitEvent, stream_wait, (void *stream, void *event, unsigned flags)) \
    X(hipStreamIsCapturing, stream_is_capturing, (void *stream, int *status)) \
    X(hipThreadExchangeStreamCaptureMode, exchange_capture_mode, (int *mode)) \
    X(hipGetStreamDeviceId, stream_device, (void *stream))

/* The tap uses one of the two to write the number of a batch. */
#define TD_HIP_TAP_OPTIONAL(X) \
    X(hipStreamWriteValue32, stream_write, (void *stream, uint64_t to, uint32_t value, \
                                            unsigned flags)) \
    X(hipMemsetD32Async, set_32, (uint64_t to, int value, size_t n, void *stream))

/* Functions that return a text (const char *); both are needed. */
#define TD_HIP_TAP_TEXTS(X) \
    X(hipKernelNameRef, function_name, (void *function)) \
    X(hipKernelNameRefByPtr, stub_name, (const void *stub, void *stream))

/* ---- functions that the tap stands before: their arguments, and the values that pass them on ---
 * A function has one of these lists; several functions share a list. */

#define TD_HIP_STUB_ARGUMENTS \
    (const void *stub, struct td_hip_dim grid, struct td_hip_dim block, void **params, \
     size_t shared_bytes, void *stream)
#define TD_HIP_STUB_VALUES (stub, grid, block, params, shared_bytes, stream)
#define TD_HIP_TOGETHER_ARGUMENTS \
    (const void *stub, struct td_hip_dim grid, struct td_hip_dim block, void **params, \
     unsigned shared_bytes, void *stream)
#define TD_HIP_EXT_STUB_ARGUMENTS \
    (const void *stub, struct td_hip_dim grid, struct td_hip_dim block, void **params, \
     size_t shared_bytes, void *stream, void *from, void *to, int flags)
#define TD_HIP_EXT_STUB_VALUES (stub, grid, block, params, shared_bytes, stream, from, to, flags)
#define TD_HIP_MODULE_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     unsigned shared_bytes, void *stream, void **params, void **extra)
#define TD_HIP_MODULE_VALUES \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra)
#define TD_HIP_MODULE_TOGETHER_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     unsigned shared_bytes, void *stream, void **params)
#define TD_HIP_MODULE_TOGETHER_VALUES \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params)
/* gx gy gz: work-items, not blocks, in the next two */
#define TD_HIP_HCC_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     size_t shared_bytes, void *stream, void **params, void **extra, void *from, void *to)
#define TD_HIP_HCC_VALUES \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra, from, to)
#define TD_HIP_EXT_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     size_t shared_bytes, void *stream, void **params, void **extra, void *from, void *to, \
     unsigned flags)
#define TD_HIP_EXT_VALUES \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra, from, to, flags)
/* C++ in HIP up to 6.2, so exported under these names; later also as they are written */
#define TD_HIP_EXT_MANGLED \
    _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
#define TD_HIP_HCC_MANGLED \
    _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_

#endif
