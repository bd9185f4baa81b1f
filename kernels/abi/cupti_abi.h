/* tap_cuda_abi.h - the parts of the C ABIs of CUDA's driver and of CUPTI that the tap uses, declared here so that it builds without CUDA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: cuda.h, cupti_callbacks.h, cupti_result.h, cupti_driver_cbid.h and generated_cuda_meta.h of CUDA 13.0; where they are installed
 * tests/e2e/055-tap-cuda-abi compares the two. A CUresult and a CUptiResult are ints, a CUdeviceptr is a uint64_t, a handle (CUcontext, CUstream,
 * CUfunction, CUkernel, CUevent) a void *. */
#ifndef TD_KERNELS_ABI_CUPTI_ABI_H
#define TD_KERNELS_ABI_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ---- the driver ---------------------------------------------------------------------------------------------------- */

enum { TAP_CUDA_MEMHOSTREGISTER_PORTABLE = 1, TAP_CUDA_MEMHOSTREGISTER_DEVICEMAP = 2 };
enum { TAP_CUDA_STREAM_NON_BLOCKING = 1, TAP_CUDA_EVENT_DISABLE_TIMING = 2 };
enum { TAP_CUDA_CAPTURE_NONE = 0, TAP_CUDA_CAPTURE_ACTIVE = 1, TAP_CUDA_CAPTURE_MODE_RELAXED = 2 };
enum { TAP_CUDA_MEMORY_HOST = 1, TAP_CUDA_MEMORY_DEVICE = 2 };                            /* CUmemorytype */
enum { TAP_CUDA_PARAM_END = 0, TAP_CUDA_PARAM_BUFFER_POINTER = 1, TAP_CUDA_PARAM_BUFFER_SIZE = 2 }; /* words of `extra` */
#define TAP_CUDA_STREAM_PER_THREAD ((void *)2)

struct tap_cuda_launch_config {                                                             /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned n_attributes;
};

struct tap_cuda_copy_2d {                                                                   /* CUDA_MEMCPY2D */
    size_t src_x_bytes, src_y; int src_type; const void *src_host; uint64_t src_device; void *src_array; size_t src_pitch;
    size_t dst_x_bytes, dst_y; int dst_type; void *dst_host; uint64_t dst_device; void *dst_array; size_t dst_pitch;
    size_t width_bytes, height;
};

/* X(name in the library, member, arguments): all are needed. Names have the suffix of the version that cuda.h 13.0 maps them to. */
#define TAP_CUDA_FUNCTIONS(X) \
    X(cuCtxPushCurrent_v2, ctx_push, (void *context)) \
    X(cuCtxPopCurrent_v2, ctx_pop, (void **context)) \
    X(cuMemAlloc_v2, mem_alloc, (uint64_t *address, size_t bytes)) \
    X(cuMemHostRegister_v2, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(cuMemHostGetDevicePointer_v2, host_device_pointer, (uint64_t *address, void *p, unsigned flags)) \
    X(cuMemcpyDtoDAsync_v2, copy_on_device, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
    X(cuMemcpyDtoHAsync_v2, copy_to_host, (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(cuMemcpy2DAsync_v2, copy_2d, (const struct tap_cuda_copy_2d *c, void *stream)) \
    X(cuStreamCreate, stream_create, (void **stream, unsigned flags)) \
    X(cuStreamWaitEvent, stream_wait, (void *stream, void *event, unsigned flags)) \
    X(cuStreamWriteValue32_v2, stream_write, (void *stream, uint64_t to, uint32_t value, unsigned flags)) \
    X(cuStreamIsCapturing, stream_is_capturing, (void *stream, int *status)) \
    X(cuStreamGetId, stream_id, (void *stream, unsigned long long *id)) \
    X(cuCtxGetId, context_id, (void *context, unsigned long long *id)) \
    X(cuEventCreate, event_create, (void **event, unsigned flags)) \
    X(cuEventRecord, event_record, (void *event, void *stream)) \
    X(cuThreadExchangeStreamCaptureMode, exchange_capture_mode, (int *mode))

/* Those that an older driver lacks, or that we can do without; NULL then. */
#define TAP_CUDA_OPTIONAL(X) \
    X(cuKernelGetParamInfo, kernel_param_info, (void *kernel, size_t i, size_t *offset, size_t *size)) \
    X(cuFuncGetParamInfo, func_param_info, (void *function, size_t i, size_t *offset, size_t *size)) \
    X(cuStreamGetCaptureInfo_v3, capture_info, (void *stream, int *status, uint64_t *id, void **graph, const void **nodes, const void **edges, size_t *n)) \
    X(cuDeviceGetCount, device_count, (int *n)) \
    X(cuCtxGetCurrent, ctx_current, (void **context)) \
    X(cuDeviceGet, device_get, (int *device, int ordinal)) \
    X(cuDevicePrimaryCtxGetState, primary_state, (int device, unsigned *flags, int *active)) \
    X(cuDevicePrimaryCtxRetain, primary_retain, (void **context, int device)) \
    X(cuMemGetAddressRange_v2, address_range, (uint64_t *base, size_t *bytes, uint64_t address)) \
    X(cuModuleLoadData, module_load, (void **module, const void *image)) \
    X(cuModuleGetFunction, module_function, (void **function, void *module, const char *name)) \
    X(cuLaunchKernel, launch, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
                               unsigned shared_bytes, void *stream, void **params, void **extra))

/* ---- CUPTI --------------------------------------------------------------------------------------------------------- */

enum { TAP_CUPTI_SUCCESS = 0, TAP_CUPTI_MULTIPLE_SUBSCRIBERS = 39 };
enum { TAP_CUPTI_DOMAIN_DRIVER = 1, TAP_CUPTI_ENTER = 0, TAP_CUPTI_EXIT = 1 };
enum tap_cupti_cbid {                                                                       /* CUpti_driver_api_trace_cbid */
    TAP_CBID_LAUNCH_KERNEL = 307, TAP_CBID_LAUNCH_KERNEL_PTSZ = 442,
    TAP_CBID_LAUNCH_COOPERATIVE = 477, TAP_CBID_LAUNCH_COOPERATIVE_PTSZ = 478,
    TAP_CBID_GRAPH_LAUNCH = 514, TAP_CBID_GRAPH_LAUNCH_PTSZ = 515,
    TAP_CBID_LAUNCH_KERNEL_EX = 652, TAP_CBID_LAUNCH_KERNEL_EX_PTSZ = 653,
    TAP_CBID_BEGIN_CAPTURE = 495, TAP_CBID_BEGIN_CAPTURE_PTSZ = 496, TAP_CBID_BEGIN_CAPTURE_V2 = 539, TAP_CBID_BEGIN_CAPTURE_V2_PTSZ = 540,
    TAP_CBID_BEGIN_CAPTURE_TO_GRAPH = 720, TAP_CBID_BEGIN_CAPTURE_TO_GRAPH_PTSZ = 721, TAP_CBID_END_CAPTURE = 497, TAP_CBID_END_CAPTURE_PTSZ = 498,
    TAP_CBID_GRAPH_INSTANTIATE = 513, TAP_CBID_GRAPH_INSTANTIATE_V2 = 578, TAP_CBID_GRAPH_INSTANTIATE_FLAGS = 643,
    TAP_CBID_GRAPH_INSTANTIATE_PARAMS = 656, TAP_CBID_GRAPH_INSTANTIATE_PARAMS_PTSZ = 657,
    TAP_CBID_GRAPH_CLONE = 523, TAP_CBID_GRAPH_DESTROY = 517, TAP_CBID_GRAPH_EXEC_DESTROY = 516, TAP_CBID_GRAPH_EXEC_UPDATE = 561, TAP_CBID_GRAPH_EXEC_UPDATE_V2 = 696,
    TAP_CBID_GRAPH_EXEC_KERNEL_SET = 538, TAP_CBID_GRAPH_EXEC_KERNEL_SET_V2 = 692, TAP_CBID_GRAPH_EXEC_MEMCPY_SET = 562, TAP_CBID_GRAPH_EXEC_MEMSET_SET = 563,
    TAP_CBID_GRAPH_EXEC_CHILD_SET = 586, TAP_CBID_GRAPH_EXEC_NODE_SET = 714, TAP_CBID_GRAPH_NODE_SET_ENABLED = 650,
    TAP_CBID_GRAPH_ADD_CHILD = 525, TAP_CBID_GRAPH_ADD_NODE = 712, TAP_CBID_GRAPH_ADD_NODE_V2 = 723,
    TAP_CBID_GRAPH_KERNEL_SET = 521, TAP_CBID_GRAPH_KERNEL_SET_V2 = 691, TAP_CBID_GRAPH_MEMCPY_SET = 520, TAP_CBID_GRAPH_NODE_SET = 713, TAP_CBID_GRAPH_DESTROY_NODE = 522
};

struct tap_cupti_data {                                                                     /* CUpti_CallbackData */
    int site;
    const char *function;
    const void *params;
    void *result;                                                                           /* at exit: of the function's type */
    const char *symbol;                                                                     /* of the kernel */
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;                                                             /* shared by enter and exit of one call */
    uint32_t correlation_id;
};
typedef void tap_cupti_fn(void *user, int domain, uint32_t cbid, const void *data);

/* cuLaunchKernel_params; also of cuLaunchCooperativeKernel, whose struct ends before `extra` */
struct tap_cuda_launch_params { void *function; unsigned grid[3], block[3], shared_bytes; void *stream; void **params, **extra; };
struct tap_cuda_launch_ex_params { const struct tap_cuda_launch_config *config; void *function; void **params, **extra; };

struct tap_cuda_graph_launch_params { void *exec, *stream; };                               /* cuGraphLaunch_params */
/* Of the calls that make, change and destroy graphs the first two words are what is wanted: (stream, graph *) of cuStreamEndCapture, (exec *, graph) of
 * cuGraphInstantiate*, (clone *, graph) of cuGraphClone, (exec, graph) of cuGraphExecUpdate*, (node *, graph) of cuGraphAdd*, (exec) of all others. */

struct tap_cupti_subscriber {                                                               /* CUpti_SubscriberParams */
    size_t struct_size;
    const char *name;
    char *old_name;
    size_t old_size;
};

#define TAP_CUPTI_FUNCTIONS(X) \
    X(cuptiSubscribe, subscribe, (void **subscriber, tap_cupti_fn *callback, void *user)) \
    X(cuptiEnableCallback, enable, (uint32_t on, void *subscriber, int domain, uint32_t cbid)) \
    X(cuptiUnsubscribe, unsubscribe, (void *subscriber))
#define TAP_CUPTI_OPTIONAL(X) /* since CUPTI 13 */ \
    X(cuptiSubscribe_v2, subscribe_v2, (void **subscriber, tap_cupti_fn *callback, void *user, struct tap_cupti_subscriber *params))

#endif
