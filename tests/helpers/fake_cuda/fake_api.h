/* fake_api.h - the driver functions that the fake CUDA driver exports: those of
 * kernels/abi/cuda_abi.h, and those that only servers and tests call.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HELPERS_FAKE_CUDA_FAKE_API_H
#define TD_TESTS_HELPERS_FAKE_CUDA_FAKE_API_H

#include "kernels/abi/cuda_abi.h"

#define FAKE_CUDA_LAUNCH_ARGS (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
                               void *stream, void **params, void **extra)
#define FAKE_CUDA_MORE(X) \
    X(cuCtxSynchronize, ctx_synchronize, (void)) \
    X(cuDeviceGetCount, device_get_count, (int *n)) \
    X(cuMemGetInfo_v2, mem_get_info, (size_t *free_bytes, size_t *total_bytes)) \
    X(cuMemsetD8_v2, set_8, (uint64_t to, unsigned char value, size_t n)) \
    X(cuMemcpyDtoDAsync_v2, copy_on_device_async, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
    X(cuModuleGetFunctionCount, module_function_count, (unsigned *n, void *module)) \
    X(cuModuleEnumerateFunctions, module_enumerate, (void **functions, unsigned n, void *module)) \
    X(cuFuncGetName, func_get_name, (const char **name, void *function)) \
    X(cuGetProcAddress_v2, get_proc_address, (const char *symbol, void **fn, int version, uint64_t flags, int *status)) \
    X(cuDevicePrimaryCtxGetState, primary_state, (int device, unsigned *flags, int *active)) \
    X(cuCtxGetCurrent, ctx_get_current, (void **context)) \
    X(cuCtxPushCurrent_v2, ctx_push, (void *context)) \
    X(cuCtxPopCurrent_v2, ctx_pop, (void **context)) \
    X(cuCtxGetDevice, ctx_get_device, (int *device)) \
    X(cuCtxGetId, ctx_id, (void *context, unsigned long long *id)) \
    X(cuMemHostAlloc, host_alloc, (void **p, size_t bytes, unsigned flags)) \
    X(cuMemFreeHost, host_free, (void *p)) \
    X(cuMemHostRegister_v2, host_register, (void *p, size_t bytes, unsigned flags)) \
    X(cuMemHostUnregister, host_unregister, (void *p)) \
    X(cuMemHostGetDevicePointer_v2, host_device_pointer, (uint64_t *address, void *p, unsigned flags)) \
    X(cuMemGetAddressRange_v2, address_range, (uint64_t *base, size_t *bytes, uint64_t address)) \
    X(cuPointerGetAttribute, pointer_attribute, (void *value, int attribute, uint64_t address)) \
    X(cuPointerGetAttributes, pointer_attributes, (unsigned n, int *attributes, void **values, uint64_t address)) \
    X(cuMemcpyDtoD_v2, copy_on_device, (uint64_t to, uint64_t from, size_t bytes)) \
    X(cuMemcpyHtoDAsync_v2, copy_to_device_async, (uint64_t to, const void *from, size_t bytes, void *stream)) \
    X(cuMemcpyDtoHAsync_v2, copy_to_host_async, (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(cuMemcpyAsync, copy_async, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
    X(cuMemcpy2DAsync_v2, copy_2d_async, (const struct td_cuda_copy_2d *c, void *stream)) \
    X(cuMemsetD32_v2, set_32, (uint64_t to, unsigned value, size_t n)) \
    X(cuMemsetD32Async, set_32_async, (uint64_t to, unsigned value, size_t n, void *stream)) \
    X(cuLibraryLoadData, library_load, (void **library, const void *image, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
    X(cuLibraryUnload, library_unload, (void *library)) \
    X(cuLibraryGetKernel, library_kernel, (void **kernel, void *library, const char *symbol)) \
    X(cuKernelGetFunction, kernel_function, (void **function, void *kernel)) \
    X(cuKernelGetParamInfo, kernel_param_info, (void *kernel, size_t i, size_t *offset, size_t *size)) \
    X(cuKernelGetName, kernel_name, (const char **name, void *kernel)) \
    X(cuFuncGetModule, func_module, (void **module, void *function)) \
    X(cuLaunchKernel_ptsz, launch_ptsz, FAKE_CUDA_LAUNCH_ARGS) \
    X(cuLaunchKernelEx, launch_ex, (const struct td_cuda_launch_config *config, void *function, void **params, void **extra)) \
    X(cuLaunchKernelEx_ptsz, launch_ex_ptsz, (const struct td_cuda_launch_config *config, void *function, void **params, void **extra)) \
    X(cuLaunchCooperativeKernel, launch_cooperative, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
                                                      unsigned shared_bytes, void *stream, void **params)) \
    X(cuLaunchCooperativeKernel_ptsz, launch_cooperative_ptsz, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
                                                                unsigned shared_bytes, void *stream, void **params)) \
    X(cuLaunchHostFunc, launch_host, (void *stream, void (*fn)(void *), void *user)) \
    X(cuStreamCreateWithPriority, stream_create_priority, (void **stream, unsigned flags, int priority)) \
    X(cuStreamQuery, stream_query, (void *stream)) \
    X(cuStreamWaitEvent, stream_wait_event, (void *stream, void *event, unsigned flags)) \
    X(cuStreamWriteValue32_v2, stream_write_32, (void *stream, uint64_t to, uint32_t value, unsigned flags)) \
    X(cuStreamIsCapturing, stream_is_capturing, (void *stream, int *status)) \
    X(cuStreamGetId, stream_id, (void *stream, unsigned long long *id)) \
    X(cuStreamBeginCapture_v2, stream_begin_capture, (void *stream, int mode)) \
    X(cuStreamGetCaptureInfo_v3, capture_info, (void *stream, int *status, uint64_t *id, void **graph, const void **nodes, const void **edges, size_t *n)) \
    X(cuStreamBeginCaptureToGraph, stream_begin_capture_to_graph, \
      (void *stream, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, int mode)) \
    X(cuStreamEndCapture, stream_end_capture, (void *stream, void **graph)) \
    X(cuThreadExchangeStreamCaptureMode, exchange_capture_mode, (int *mode)) \
    X(cuEventQuery, event_query, (void *event)) \
    X(cuEventElapsedTime_v2, event_elapsed_v2, (float *ms, void *from, void *to)) \
    TD_CUDA_GRAPHS(X) \
    X(cuGraphNodeGetDependencies_v2, graph_dependencies, (void *node, void **nodes, struct td_cuda_edge *edges, size_t *n)) \
    X(cuGraphKernelNodeGetParams_v2, graph_kernel_params, (void *node, struct td_cuda_kernel_node *what)) \
    X(cuGraphExecKernelNodeSetParams_v2, graph_exec_set_kernel, (void *exec, void *node, const struct td_cuda_kernel_node *what)) \
    X(cuGraphAddNode_v2, graph_add_node, (void **node, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, void *what)) \
    X(cuGraphExecUpdate_v2, graph_exec_update, (void *exec, void *graph, void *info)) \
    X(cuGraphLaunch, graph_launch, (void *exec, void *stream)) \
    X(cuGraphLaunch_ptsz, graph_launch_ptsz, (void *exec, void *stream))

#define FAKE_CUDA_DECLARE(name, member, args) int name args;
TD_CUDA_NEEDED(FAKE_CUDA_DECLARE)
TD_CUDA_OPTIONAL(FAKE_CUDA_DECLARE)
FAKE_CUDA_MORE(FAKE_CUDA_DECLARE)

#endif
