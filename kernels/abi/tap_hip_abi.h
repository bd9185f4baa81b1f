/* tap_hip_abi.h - the parts of the C ABIs of AMD's HIP runtime and of its HSA runtime that the tap uses, declared here so that it builds without ROCm.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: hip_runtime_api.h and hip_ext.h of HIP 5.2 (Debian's libamdhip64-dev; tests/e2e/063-tap-hip-abi compares), hsa.h 1.1, and, for what says so, ROCm/HIP
 * and ROCm/rocm-systems up to 7. Flags of memory, streams, events and captures are CUDA's numbers (tap_cuda_abi.h). A hipError_t and an hsa_status_t are
 * ints, a hipDeviceptr_t (void *) a uint64_t, a handle a void *. */
#ifndef TD_KERNELS_ABI_TAP_HIP_ABI_H
#define TD_KERNELS_ABI_TAP_HIP_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { TAP_HIP_ERROR_UNKNOWN = 999, TAP_HIP_COPY_ON_DEVICE = 3 /* hipMemcpyDeviceToDevice */ };
enum { TAP_HSA_ERROR = 0x1000 };
enum { TAP_HIP_PARAM_BUFFER_POINTER = 1, TAP_HIP_PARAM_BUFFER_SIZE = 2, TAP_HIP_PARAM_END = 3 }; /* words of `extra`; the end is not CUDA's */
#define TAP_HIP_STREAM_LEGACY ((void *)1)     /* since HIP 6.1 */
#define TAP_HIP_STREAM_PER_THREAD ((void *)2)

struct tap_hip_dim { uint32_t x, y, z; };     /* dim3; passed by value */

/* hipLaunchConfig_t and HIP_LAUNCH_CONFIG, since HIP 6.5 */
struct tap_hip_stub_config { struct tap_hip_dim grid, block; size_t shared_bytes; void *stream, *attributes; unsigned n_attributes; };
struct tap_hip_config { unsigned grid[3], block[3], shared_bytes; void *stream, *attributes; unsigned n_attributes; };

/* X(name in the library, member, arguments): all are needed. */
#define TAP_HIP_FUNCTIONS(X) \
    X(hipGetDevice, get_device, (int *device)) \
    X(hipSetDevice, set_device, (int device)) \
    X(hipPeekAtLastError, peek_error, (void)) \
    X(hipGetLastError, clear_error, (void)) \
    X(hipMalloc, mem_alloc, (uint64_t *address, size_t bytes)) \
    X(hipHostRegister, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(hipHostGetDevicePointer, host_device_pointer, (uint64_t *address, void *p, unsigned flags)) \
    X(hipMemcpyDtoDAsync, copy_on_device, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
    X(hipMemcpyDtoHAsync, copy_to_host, (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(hipMemcpy2DAsync, copy_2d, (uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width_bytes, size_t height, int kind, void *stream)) \
    X(hipStreamCreateWithFlags, stream_create, (void **stream, unsigned flags)) \
    X(hipStreamWaitEvent, stream_wait, (void *stream, void *event, unsigned flags)) \
    X(hipStreamIsCapturing, stream_is_capturing, (void *stream, int *status)) \
    X(hipEventCreateWithFlags, event_create, (void **event, unsigned flags)) \
    X(hipEventRecord, event_record, (void *event, void *stream)) \
    X(hipThreadExchangeStreamCaptureMode, exchange_capture_mode, (int *mode)) \
    X(hipGetStreamDeviceId, stream_device, (void *stream))

/* One of the two writes a batch's number. */
#define TAP_HIP_OPTIONAL(X) \
    X(hipStreamWriteValue32, stream_write, (void *stream, uint64_t to, uint32_t value, unsigned flags)) \
    X(hipMemsetD32Async, set_32, (uint64_t to, int value, size_t n, void *stream))

#define TAP_HIP_TEXTS(X) \
    X(hipKernelNameRef, function_name, (void *function)) \
    X(hipKernelNameRefByPtr, stub_name, (const void *stub, void *stream))

/* The functions that the tap stands before. X(name, arguments, values) */
#define TAP_HIP_STUB_ARGUMENTS (const void *stub, struct tap_hip_dim grid, struct tap_hip_dim block, void **params, size_t shared_bytes, void *stream)
#define TAP_HIP_STUB_VALUES (stub, grid, block, params, shared_bytes, stream)
#define TAP_HIP_TOGETHER_ARGUMENTS (const void *stub, struct tap_hip_dim grid, struct tap_hip_dim block, void **params, unsigned shared_bytes, void *stream)
#define TAP_HIP_EXT_STUB_ARGUMENTS \
    (const void *stub, struct tap_hip_dim grid, struct tap_hip_dim block, void **params, size_t shared_bytes, void *stream, void *from, void *to, int flags)
#define TAP_HIP_EXT_STUB_VALUES (stub, grid, block, params, shared_bytes, stream, from, to, flags)
#define TAP_HIP_MODULE_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **params, void **extra)
#define TAP_HIP_MODULE_VALUES (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra)
#define TAP_HIP_MODULE_TOGETHER_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **params)
#define TAP_HIP_MODULE_TOGETHER_VALUES (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params)
/* gx gy gz: work-items, not blocks */
#define TAP_HIP_HCC_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, size_t shared_bytes, void *stream, void **params, void **extra, \
     void *from, void *to)
#define TAP_HIP_HCC_VALUES (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra, from, to)
#define TAP_HIP_EXT_ARGUMENTS \
    (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, size_t shared_bytes, void *stream, void **params, void **extra, \
     void *from, void *to, unsigned flags)
#define TAP_HIP_EXT_VALUES (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra, from, to, flags)
/* C++ in HIP up to 6.2, so exported under these names; later also as they are written */
#define TAP_HIP_EXT_MANGLED _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
#define TAP_HIP_HCC_MANGLED _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_

#endif
