/* cuda_abi.h - the part of the CUDA driver's binary interface that Tapedeck uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Declared here so that Tapedeck builds without CUDA. Source: cuda.h of CUDA 13.0;
 * tests/e2e/050-cuda-abi compares the two where a cuda.h is installed. Names carry our prefix, so
 * that both headers can be included together. A CUresult is an int, a CUdeviceptr a uint64_t, and a
 * handle (CUcontext, CUstream, CUfunction, CUkernel, CUevent ...) a void *.
 *
 * Two users look functions up at run time: replay's drivers (kernels/gpu/driver_*.c) and the tap
 * (recorder/tap/cuda). A function is declared once; the lists at the end say who needs which. */
#ifndef TD_KERNELS_ABI_CUDA_ABI_H
#define TD_KERNELS_ABI_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum td_cuda_result {
    TD_CUDA_SUCCESS = 0,
    TD_CUDA_INVALID_VALUE = 1,
    TD_CUDA_OUT_OF_MEMORY = 2,
    TD_CUDA_NOT_INITIALIZED = 3,
    TD_CUDA_DEVICE_UNAVAILABLE = 46,
    TD_CUDA_NO_DEVICE = 100,
    TD_CUDA_INVALID_DEVICE = 101,
    TD_CUDA_INVALID_IMAGE = 200,
    TD_CUDA_INVALID_CONTEXT = 201,
    TD_CUDA_NO_BINARY_FOR_GPU = 209,
    TD_CUDA_ECC_UNCORRECTABLE = 214,
    TD_CUDA_INVALID_PTX = 218,
    TD_CUDA_UNSUPPORTED_PTX_VERSION = 222,
    TD_CUDA_INVALID_HANDLE = 400,
    TD_CUDA_NOT_FOUND = 500,
    TD_CUDA_NOT_READY = 600,
    TD_CUDA_ILLEGAL_ADDRESS = 700,
    TD_CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
    TD_CUDA_LAUNCH_TIMEOUT = 702,
    TD_CUDA_CONTEXT_IS_DESTROYED = 709,
    TD_CUDA_ASSERT = 710,
    TD_CUDA_HARDWARE_STACK_ERROR = 714,
    TD_CUDA_ILLEGAL_INSTRUCTION = 715,
    TD_CUDA_MISALIGNED_ADDRESS = 716,
    TD_CUDA_INVALID_ADDRESS_SPACE = 717,
    TD_CUDA_INVALID_PC = 718,
    TD_CUDA_LAUNCH_FAILED = 719,
    TD_CUDA_NOT_SUPPORTED = 801,
    TD_CUDA_STREAM_CAPTURE_UNSUPPORTED = 900,
    TD_CUDA_STREAM_CAPTURE_INVALIDATED = 901,
    TD_CUDA_STREAM_CAPTURE_UNMATCHED = 903,
    TD_CUDA_STREAM_CAPTURE_IMPLICIT = 906,
    TD_CUDA_UNKNOWN = 999
};

enum td_cuda_device_attribute {
    TD_CUDA_DEV_MAX_THREADS_PER_BLOCK = 1,
    TD_CUDA_DEV_MAX_GRID_DIM_X = 5,
    TD_CUDA_DEV_MAX_GRID_DIM_Y = 6,
    TD_CUDA_DEV_MAX_GRID_DIM_Z = 7,
    TD_CUDA_DEV_MAX_SHARED_PER_BLOCK = 8,
    TD_CUDA_DEV_WARP_SIZE = 10,
    TD_CUDA_DEV_MULTIPROCESSOR_COUNT = 16,
    TD_CUDA_DEV_COMPUTE_MODE = 20,     /* 0: any number of processes */
    TD_CUDA_DEV_PCI_BUS_ID = 33,
    TD_CUDA_DEV_PCI_DEVICE_ID = 34,
    TD_CUDA_DEV_L2_CACHE_SIZE = 38,
    TD_CUDA_DEV_PCI_DOMAIN_ID = 50,
    TD_CUDA_DEV_CAPABILITY_MAJOR = 75,
    TD_CUDA_DEV_CAPABILITY_MINOR = 76,
    TD_CUDA_DEV_MAX_SHARED_PER_BLOCK_OPTIN = 97,
    TD_CUDA_DEV_VIRTUAL_MEMORY = 102
};

enum td_cuda_function_attribute {
    TD_CUDA_FUNC_MAX_THREADS_PER_BLOCK = 0,
    TD_CUDA_FUNC_SHARED_SIZE_BYTES = 1,
    TD_CUDA_FUNC_LOCAL_SIZE_BYTES = 3,
    TD_CUDA_FUNC_NUM_REGS = 4,
    TD_CUDA_FUNC_PTX_VERSION = 5,
    TD_CUDA_FUNC_BINARY_VERSION = 6,
    TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

enum { TD_CUDA_MEMORY_HOST = 1, TD_CUDA_MEMORY_DEVICE = 2, TD_CUDA_MEMORY_UNIFIED = 4 }; /* CUmemorytype */
enum { TD_CUDA_MEMHOSTREGISTER_PORTABLE = 1, TD_CUDA_MEMHOSTREGISTER_DEVICEMAP = 2 };
enum { TD_CUDA_STREAM_NON_BLOCKING = 1, TD_CUDA_EVENT_DISABLE_TIMING = 2 };
enum { TD_CUDA_CAPTURE_NONE = 0, TD_CUDA_CAPTURE_ACTIVE = 1, TD_CUDA_CAPTURE_INVALIDATED = 2 };
enum { TD_CUDA_CAPTURE_MODE_RELAXED = 2 };
enum { TD_CUDA_ALLOCATION_PINNED = 1, TD_CUDA_LOCATION_DEVICE = 1 };
enum { TD_CUDA_ACCESS_READWRITE = 3, TD_CUDA_GRANULARITY_MINIMUM = 0 };
/* The words that may stand in a launch's `extra`. */
enum { TD_CUDA_PARAM_END = 0, TD_CUDA_PARAM_BUFFER_POINTER = 1, TD_CUDA_PARAM_BUFFER_SIZE = 2 };
#define TD_CUDA_STREAM_PER_THREAD ((void *)2)

struct td_cuda_location { int type, id; };                       /* CUmemLocation */
struct td_cuda_allocation {                                      /* CUmemAllocationProp */
    int type, handle_types;
    struct td_cuda_location location;
    void *win32;
    struct { uint8_t compression, rdma; uint16_t usage; uint8_t reserved[4]; } flags;
};
struct td_cuda_access { struct td_cuda_location location; int flags; }; /* CUmemAccessDesc */

struct td_cuda_copy_2d {                                         /* CUDA_MEMCPY2D */
    size_t src_x_bytes, src_y;
    int src_type;
    const void *src_host;
    uint64_t src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x_bytes, dst_y;
    int dst_type;
    void *dst_host;
    uint64_t dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width_bytes, height;
};

struct td_cuda_launch_config {                                   /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned n_attributes;
};

struct td_cuda_kernel_node {                                     /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra, *kernel, *context;
};
struct td_cuda_edge { uint8_t from_port, to_port, type, reserved[5]; };  /* CUgraphEdgeData */
/* Ports of a kernel's node: all its blocks are done with what they said they are done with; all have
 * begun. The type of an edge: the node behind it may wait for the one before it by itself. */
enum { TD_CUDA_PORT_PROGRAMMATIC = 1, TD_CUDA_PORT_LAUNCHED = 2, TD_CUDA_EDGE_PROGRAMMATIC = 1 };
/* The flags of an instantiation. */
enum { TD_CUDA_GRAPH_UPLOAD = 2, TD_CUDA_GRAPH_DEVICE_LAUNCH = 4 };

/* ---- functions: X(name in the library, member, arguments) ------------------------------------
 * Names have the suffix of the version that cuda.h 13.0 maps them to; each has been in every driver
 * since CUDA 11 unless its list says otherwise. */

/* Memory, streams and events, for both users. */
#define TD_CUDA_BASIC(X) \
    X(cuMemAlloc_v2, mem_alloc, (uint64_t *address, size_t bytes)) \
    X(cuStreamCreate, stream_create, (void **stream, unsigned flags)) \
    X(cuEventCreate, event_create, (void **event, unsigned flags)) \
    X(cuEventRecord, event_record, (void *event, void *stream))

/* Loading code and launching it, for both users. */
#define TD_CUDA_CODE(X) \
    X(cuDeviceGet, device_get, (int *device, int ordinal)) \
    X(cuModuleLoadData, module_load, (void **module, const void *image)) \
    X(cuModuleGetFunction, module_get_function, (void **function, void *module, \
                                                 const char *symbol)) \
    X(cuLaunchKernel, launch, (void *function, unsigned gx, unsigned gy, unsigned gz, \
                               unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
                               void *stream, void **params, void **extra))

#define TD_CUDA_PRIMARY_RETAIN(X) \
    X(cuDevicePrimaryCtxRetain, primary_retain, (void **context, int device))

/* Since CUDA 12.4. */
#define TD_CUDA_FUNC_PARAM_INFO(X) \
    X(cuFuncGetParamInfo, func_get_param_info, (void *function, size_t i, size_t *offset, \
                                                size_t *size))

/* ---- what replay's driver needs -------------------------------------------------------------- */

/* HIP has a function of the same arguments for each of these (TD_HIP_SHARED in hip_abi.h), so that
 * driver_core.c calls either through one member. */
#define TD_CUDA_SHARED(X) \
    TD_CUDA_BASIC(X) \
    TD_CUDA_CODE(X) \
    X(cuInit, init, (unsigned flags)) \
    X(cuDriverGetVersion, driver_get_version, (int *version)) \
    X(cuDeviceGetName, device_get_name, (char *name, int len, int device)) \
    X(cuDeviceGetAttribute, device_get_attribute, (int *value, int attribute, int device)) \
    X(cuMemFree_v2, mem_free, (uint64_t address)) \
    X(cuMemcpyHtoD_v2, copy_to_device, (uint64_t to, const void *from, size_t bytes)) \
    X(cuMemcpyDtoH_v2, copy_to_host, (void *to, uint64_t from, size_t bytes)) \
    X(cuMemcpyDtoDAsync_v2, copy_within, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
    X(cuMemsetD8Async, set_8_async, (uint64_t to, unsigned char value, size_t n, void *stream)) \
    X(cuModuleUnload, module_unload, (void *module)) \
    X(cuFuncGetAttribute, func_get_attribute, (int *value, int attribute, void *function)) \
    X(cuStreamDestroy_v2, stream_destroy, (void *stream)) \
    X(cuStreamSynchronize, stream_synchronize, (void *stream)) \
    X(cuEventDestroy_v2, event_destroy, (void *event)) \
    X(cuEventSynchronize, event_synchronize, (void *event)) \
    X(cuEventElapsedTime, event_elapsed, (float *ms, void *from, void *to))

#define TD_CUDA_OWN(X) \
    TD_CUDA_PRIMARY_RETAIN(X) \
    X(cuGetErrorName, get_error_name, (int result, const char **name)) \
    X(cuGetErrorString, get_error_string, (int result, const char **text)) \
    X(cuDevicePrimaryCtxRelease_v2, primary_release, (int device)) \
    X(cuCtxSetCurrent, ctx_set_current, (void *context)) \
    X(cuFuncSetAttribute, func_set_attribute, (void *function, int attribute, int value))

#define TD_CUDA_NEEDED(X) TD_CUDA_SHARED(X) TD_CUDA_OWN(X)

/* Pages that the device copies from and to by itself. The members are NULL where a library lacks them. */
#define TD_CUDA_PINNING(X) \
    X(cuMemHostRegister_v2, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(cuMemHostUnregister, host_unregister, (void *p)) \
    X(cuMemcpyHtoDAsync_v2, copy_to_device_async, (uint64_t to, const void *from, size_t bytes, void *stream)) \
    X(cuMemcpyDtoHAsync_v2, copy_to_host_async, (void *to, uint64_t from, size_t bytes, void *stream))

/* Virtual memory, since CUDA 10.2. The members are NULL with an older driver. */
#define TD_CUDA_MAPPING(X) \
    X(cuMemAddressReserve, address_reserve, (uint64_t *address, size_t bytes, size_t alignment, \
                                             uint64_t hint, unsigned long long flags)) \
    X(cuMemAddressFree, address_free, (uint64_t address, size_t bytes)) \
    X(cuMemCreate, mem_create, (unsigned long long *handle, size_t bytes, \
                                const struct td_cuda_allocation *what, \
                                unsigned long long flags)) \
    X(cuMemRelease, mem_release, (unsigned long long handle)) \
    X(cuMemMap, mem_map, (uint64_t address, size_t bytes, size_t offset, \
                          unsigned long long handle, unsigned long long flags)) \
    X(cuMemUnmap, mem_unmap, (uint64_t address, size_t bytes)) \
    X(cuMemSetAccess, mem_set_access, (uint64_t address, size_t bytes, \
                                       const struct td_cuda_access *access, size_t n)) \
    X(cuMemGetAllocationGranularity, mem_granularity, (size_t *bytes, \
                                                       const struct td_cuda_allocation *what, \
                                                       int option))

/* The members are NULL with a driver that lacks the function. */
#define TD_CUDA_OPTIONAL(X) TD_CUDA_FUNC_PARAM_INFO(X) TD_CUDA_MAPPING(X)

/* ---- what the tap needs ---------------------------------------------------------------------- */

#define TD_CUDA_TAP_NEEDED(X) \
    TD_CUDA_BASIC(X) \
    X(cuCtxPushCurrent_v2, ctx_push, (void *context)) \
    X(cuCtxPopCurrent_v2, ctx_pop, (void **context)) \
    X(cuMemHostRegister_v2, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(cuMemHostGetDevicePointer_v2, host_device_pointer, (uint64_t *address, void *p, \
                                                          unsigned flags)) \
    X(cuMemcpyDtoDAsync_v2, copy_on_device, (uint64_t to, uint64_t from, size_t bytes, \
                                             void *stream)) \
    X(cuMemcpyDtoHAsync_v2, copy_to_host, (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(cuMemcpy2DAsync_v2, copy_2d, (const struct td_cuda_copy_2d *c, void *stream)) \
    X(cuStreamWaitEvent, stream_wait, (void *stream, void *event, unsigned flags)) \
    X(cuStreamWriteValue32_v2, stream_write, (void *stream, uint64_t to, uint32_t value, \
                                              unsigned flags)) \
    X(cuStreamIsCapturing, stream_is_capturing, (void *stream, int *status)) \
    X(cuStreamGetId, stream_id, (void *stream, unsigned long long *id)) \
    X(cuCtxGetId, context_id, (void *context, unsigned long long *id)) \
    X(cuThreadExchangeStreamCaptureMode, exchange_capture_mode, (int *mode))

/* Twins of graphs, since CUDA 12.3. */
#define TD_CUDA_GRAPHS(X) \
    X(cuGraphGetNodes, graph_nodes, (void *graph, void **nodes, size_t *n)) \
    X(cuGraphClone, graph_clone, (void **clone, void *graph)) \
    X(cuGraphNodeFindInClone, graph_find_in_clone, (void **node, void *original, void *clone)) \
    X(cuGraphNodeGetDependentNodes_v2, graph_dependents, (void *node, void **nodes, \
                                                          struct td_cuda_edge *edges, size_t *n)) \
    X(cuGraphAddKernelNode_v2, graph_add_kernel, (void **node, void *graph, void *const *after, \
                                                  size_t n, \
                                                  const struct td_cuda_kernel_node *what)) \
    X(cuGraphAddDependencies_v2, graph_add_edges, (void *graph, void *const *from, \
                                                   void *const *to, \
                                                   const struct td_cuda_edge *edges, size_t n)) \
    X(cuGraphRemoveDependencies_v2, graph_remove_edges, (void *graph, void *const *from, \
                                                         void *const *to, \
                                                         const struct td_cuda_edge *edges, \
                                                         size_t n)) \
    X(cuGraphInstantiateWithFlags, graph_instantiate, (void **exec, void *graph, \
                                                       unsigned long long flags)) \
    X(cuGraphDestroy, graph_destroy, (void *graph)) \
    X(cuGraphExecDestroy, graph_exec_destroy, (void *exec))

/* The kernels that a graph launches, by name, since CUDA 12.3. */
#define TD_CUDA_NAMES(X) \
    X(cuGraphNodeGetDependencies_v2, graph_dependencies, (void *node, void **nodes, \
                                                          struct td_cuda_edge *edges, size_t *n)) \
    X(cuGraphKernelNodeGetParams_v2, graph_kernel_params, (void *node, \
                                                           struct td_cuda_kernel_node *what)) \
    X(cuFuncGetName, func_name, (const char **name, void *function)) \
    X(cuKernelGetName, kernel_name, (const char **name, void *kernel))

/* Functions that an older driver lacks, or that the tap can do without: the members are NULL then. */
#define TD_CUDA_TAP_OPTIONAL(X) \
    TD_CUDA_GRAPHS(X) \
    TD_CUDA_NAMES(X) \
    TD_CUDA_CODE(X) \
    TD_CUDA_PRIMARY_RETAIN(X) \
    TD_CUDA_FUNC_PARAM_INFO(X) \
    X(cuMemFree_v2, mem_free, (uint64_t address)) \
    X(cuKernelGetParamInfo, kernel_param_info, (void *kernel, size_t i, size_t *offset, \
                                                size_t *size)) \
    X(cuStreamGetCaptureInfo_v3, capture_info, (void *stream, int *status, uint64_t *id, \
                                                void **graph, const void **nodes, \
                                                const void **edges, size_t *n)) \
    X(cuDeviceGetCount, device_count, (int *n)) \
    X(cuCtxGetCurrent, ctx_current, (void **context)) \
    X(cuCtxGetDevice, ctx_device, (int *device)) \
    X(cuDeviceGetAttribute, device_attribute, (int *value, int attribute, int device)) \
    X(cuDevicePrimaryCtxGetState, primary_state, (int device, unsigned *flags, int *active)) \
    X(cuMemGetAddressRange_v2, address_range, (uint64_t *base, size_t *bytes, uint64_t address))

#endif
