/* check.c - what the tap declares of the CUDA driver and of CUPTI beside the real headers: compiling is the test.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>

#include "kernels/abi/cupti_abi.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs);
#define MEMBER(ours, a, theirs, b) \
    _Static_assert(offsetof(struct ours, a) == offsetof(theirs, b) && sizeof(((struct ours *)0)->a) % sizeof(((theirs *)0)->b) == 0, #theirs "." #b);
#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs);

SAME(TAP_CUDA_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE) SAME(TAP_CUDA_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP)
SAME(TAP_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING) SAME(TAP_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING)
SAME(TAP_CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE) SAME(TAP_CUDA_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE) SAME(TAP_CUDA_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED)
SAME(TAP_CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST) SAME(TAP_CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE)
SAME(TAP_CUDA_PARAM_END, CU_LAUNCH_PARAM_END_AS_INT) SAME(TAP_CUDA_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
SAME(TAP_CUDA_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT) SAME(sizeof(cuuint32_t), 4) SAME(CU_STREAM_WRITE_VALUE_DEFAULT, 0)

SIZE(tap_cuda_launch_config, CUlaunchConfig) MEMBER(tap_cuda_launch_config, grid, CUlaunchConfig, gridDimX) MEMBER(tap_cuda_launch_config, block, CUlaunchConfig, blockDimX)
MEMBER(tap_cuda_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes) MEMBER(tap_cuda_launch_config, stream, CUlaunchConfig, hStream)
SIZE(tap_cuda_copy_2d, CUDA_MEMCPY2D) MEMBER(tap_cuda_copy_2d, src_type, CUDA_MEMCPY2D, srcMemoryType) MEMBER(tap_cuda_copy_2d, src_device, CUDA_MEMCPY2D, srcDevice)
MEMBER(tap_cuda_copy_2d, src_pitch, CUDA_MEMCPY2D, srcPitch) MEMBER(tap_cuda_copy_2d, dst_type, CUDA_MEMCPY2D, dstMemoryType)
MEMBER(tap_cuda_copy_2d, dst_device, CUDA_MEMCPY2D, dstDevice) MEMBER(tap_cuda_copy_2d, dst_pitch, CUDA_MEMCPY2D, dstPitch)
MEMBER(tap_cuda_copy_2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes) MEMBER(tap_cuda_copy_2d, height, CUDA_MEMCPY2D, Height)

SAME(TAP_CUPTI_SUCCESS, CUPTI_SUCCESS) SAME(TAP_CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
SAME(TAP_CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API) SAME(TAP_CUPTI_ENTER, CUPTI_API_ENTER) SAME(TAP_CUPTI_EXIT, CUPTI_API_EXIT)
#define CBID(ours, theirs) SAME(TAP_CBID_##ours, CUPTI_DRIVER_TRACE_CBID_##theirs) SAME(TAP_CBID_##ours##_PTSZ, CUPTI_DRIVER_TRACE_CBID_##theirs##_ptsz)
CBID(LAUNCH_KERNEL, cuLaunchKernel) CBID(LAUNCH_COOPERATIVE, cuLaunchCooperativeKernel) CBID(GRAPH_LAUNCH, cuGraphLaunch) CBID(LAUNCH_KERNEL_EX, cuLaunchKernelEx)
CBID(BEGIN_CAPTURE, cuStreamBeginCapture) CBID(BEGIN_CAPTURE_V2, cuStreamBeginCapture_v2) CBID(BEGIN_CAPTURE_TO_GRAPH, cuStreamBeginCaptureToGraph)
CBID(END_CAPTURE, cuStreamEndCapture) CBID(GRAPH_INSTANTIATE_PARAMS, cuGraphInstantiateWithParams)
#define CBID_1(ours, theirs) SAME(TAP_CBID_##ours, CUPTI_DRIVER_TRACE_CBID_##theirs)
CBID_1(GRAPH_INSTANTIATE, cuGraphInstantiate) CBID_1(GRAPH_INSTANTIATE_V2, cuGraphInstantiate_v2) CBID_1(GRAPH_INSTANTIATE_FLAGS, cuGraphInstantiateWithFlags)
CBID_1(GRAPH_CLONE, cuGraphClone) CBID_1(GRAPH_DESTROY, cuGraphDestroy) CBID_1(GRAPH_EXEC_DESTROY, cuGraphExecDestroy)
CBID_1(GRAPH_EXEC_UPDATE, cuGraphExecUpdate) CBID_1(GRAPH_EXEC_UPDATE_V2, cuGraphExecUpdate_v2) CBID_1(GRAPH_NODE_SET_ENABLED, cuGraphNodeSetEnabled)
CBID_1(GRAPH_EXEC_KERNEL_SET, cuGraphExecKernelNodeSetParams) CBID_1(GRAPH_EXEC_KERNEL_SET_V2, cuGraphExecKernelNodeSetParams_v2)
CBID_1(GRAPH_EXEC_MEMCPY_SET, cuGraphExecMemcpyNodeSetParams) CBID_1(GRAPH_EXEC_MEMSET_SET, cuGraphExecMemsetNodeSetParams)
CBID_1(GRAPH_EXEC_CHILD_SET, cuGraphExecChildGraphNodeSetParams) CBID_1(GRAPH_EXEC_NODE_SET, cuGraphExecNodeSetParams)
CBID_1(GRAPH_ADD_CHILD, cuGraphAddChildGraphNode) CBID_1(GRAPH_ADD_NODE, cuGraphAddNode) CBID_1(GRAPH_ADD_NODE_V2, cuGraphAddNode_v2)
CBID_1(GRAPH_KERNEL_SET, cuGraphKernelNodeSetParams) CBID_1(GRAPH_KERNEL_SET_V2, cuGraphKernelNodeSetParams_v2)
CBID_1(GRAPH_MEMCPY_SET, cuGraphMemcpyNodeSetParams) CBID_1(GRAPH_NODE_SET, cuGraphNodeSetParams) CBID_1(GRAPH_DESTROY_NODE, cuGraphDestroyNode)

SIZE(tap_cupti_data, CUpti_CallbackData) MEMBER(tap_cupti_data, site, CUpti_CallbackData, callbackSite) MEMBER(tap_cupti_data, params, CUpti_CallbackData, functionParams)
MEMBER(tap_cupti_data, result, CUpti_CallbackData, functionReturnValue) MEMBER(tap_cupti_data, symbol, CUpti_CallbackData, symbolName)
MEMBER(tap_cupti_data, context, CUpti_CallbackData, context) MEMBER(tap_cupti_data, correlation_data, CUpti_CallbackData, correlationData)
#define LAUNCH(theirs) \
    MEMBER(tap_cuda_launch_params, function, theirs, f) MEMBER(tap_cuda_launch_params, grid, theirs, gridDimX) MEMBER(tap_cuda_launch_params, block, theirs, blockDimX) \
    MEMBER(tap_cuda_launch_params, shared_bytes, theirs, sharedMemBytes) MEMBER(tap_cuda_launch_params, stream, theirs, hStream) \
    MEMBER(tap_cuda_launch_params, params, theirs, kernelParams)
LAUNCH(cuLaunchKernel_params) LAUNCH(cuLaunchKernel_ptsz_params) LAUNCH(cuLaunchCooperativeKernel_params) LAUNCH(cuLaunchCooperativeKernel_ptsz_params)
MEMBER(tap_cuda_launch_params, extra, cuLaunchKernel_params, extra)
#define LAUNCH_EX(theirs) \
    SIZE(tap_cuda_launch_ex_params, theirs) MEMBER(tap_cuda_launch_ex_params, config, theirs, config) MEMBER(tap_cuda_launch_ex_params, function, theirs, f) \
    MEMBER(tap_cuda_launch_ex_params, params, theirs, kernelParams) MEMBER(tap_cuda_launch_ex_params, extra, theirs, extra)
LAUNCH_EX(cuLaunchKernelEx_params) LAUNCH_EX(cuLaunchKernelEx_ptsz_params)
SIZE(tap_cuda_graph_launch_params, cuGraphLaunch_params) MEMBER(tap_cuda_graph_launch_params, exec, cuGraphLaunch_params, hGraph)
MEMBER(tap_cuda_graph_launch_params, stream, cuGraphLaunch_params, hStream)
/* The words that the tap reads of other calls; all their members are pointers. */
#define WORDS(theirs, first, second) _Static_assert(offsetof(theirs, first) == 0 && offsetof(theirs, second) == sizeof(void *), #theirs);
WORDS(cuStreamEndCapture_params, hStream, phGraph) WORDS(cuStreamEndCapture_ptsz_params, hStream, phGraph)
WORDS(cuGraphInstantiate_params, phGraphExec, hGraph) WORDS(cuGraphInstantiate_v2_params, phGraphExec, hGraph) WORDS(cuGraphInstantiateWithFlags_params, phGraphExec, hGraph)
WORDS(cuGraphInstantiateWithParams_params, phGraphExec, hGraph) WORDS(cuGraphInstantiateWithParams_ptsz_params, phGraphExec, hGraph)
WORDS(cuGraphClone_params, phGraphClone, originalGraph) WORDS(cuGraphExecUpdate_params, hGraphExec, hGraph) WORDS(cuGraphExecUpdate_v2_params, hGraphExec, hGraph)
WORDS(cuGraphAddChildGraphNode_params, phGraphNode, hGraph) WORDS(cuGraphAddNode_params, phGraphNode, hGraph) WORDS(cuGraphAddNode_v2_params, phGraphNode, hGraph)
#define FIRST(theirs, first) _Static_assert(offsetof(theirs, first) == 0, #theirs);
FIRST(cuGraphDestroy_params, hGraph) FIRST(cuGraphExecDestroy_params, hGraphExec) FIRST(cuGraphNodeSetEnabled_params, hGraphExec)
FIRST(cuGraphExecKernelNodeSetParams_params, hGraphExec) FIRST(cuGraphExecKernelNodeSetParams_v2_params, hGraphExec) FIRST(cuGraphExecMemcpyNodeSetParams_params, hGraphExec)
FIRST(cuGraphExecMemsetNodeSetParams_params, hGraphExec) FIRST(cuGraphExecChildGraphNodeSetParams_params, hGraphExec) FIRST(cuGraphExecNodeSetParams_params, hGraphExec)
/* Not yet in CUPTI 12: CUpti_SubscriberParams */
#ifdef CUpti_SubscriberParams_STRUCT_SIZE
SIZE(tap_cupti_subscriber, CUpti_SubscriberParams) MEMBER(tap_cupti_subscriber, name, CUpti_SubscriberParams, subscriberName)
MEMBER(tap_cupti_subscriber, old_name, CUpti_SubscriberParams, oldSubscriberName) MEMBER(tap_cupti_subscriber, old_size, CUpti_SubscriberParams, oldSubscriberSize)
#endif
