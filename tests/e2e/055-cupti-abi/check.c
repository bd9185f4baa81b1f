/* check.c - what the tap declares of CUPTI beside the real headers: compiling is the test.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>

#include "kernels/abi/cuda_abi.h"
#include "kernels/abi/cupti_abi.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs);
#define MEMBER(ours, a, theirs, b) \
    _Static_assert(offsetof(struct ours, a) == offsetof(theirs, b) && sizeof(((struct ours *)0)->a) % sizeof(((theirs *)0)->b) == 0, #theirs "." #b);
#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs);

SAME(TD_CUPTI_SUCCESS, CUPTI_SUCCESS) SAME(TD_CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
SAME(TD_CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API) SAME(TD_CUPTI_ENTER, CUPTI_API_ENTER) SAME(TD_CUPTI_EXIT, CUPTI_API_EXIT)
#define CBID(ours, theirs) SAME(TD_CBID_##ours, CUPTI_DRIVER_TRACE_CBID_##theirs) SAME(TD_CBID_##ours##_PTSZ, CUPTI_DRIVER_TRACE_CBID_##theirs##_ptsz)
CBID(LAUNCH_KERNEL, cuLaunchKernel) CBID(LAUNCH_COOPERATIVE, cuLaunchCooperativeKernel) CBID(GRAPH_LAUNCH, cuGraphLaunch) CBID(LAUNCH_KERNEL_EX, cuLaunchKernelEx)
CBID(BEGIN_CAPTURE, cuStreamBeginCapture) CBID(BEGIN_CAPTURE_V2, cuStreamBeginCapture_v2) CBID(BEGIN_CAPTURE_TO_GRAPH, cuStreamBeginCaptureToGraph)
CBID(END_CAPTURE, cuStreamEndCapture) CBID(GRAPH_INSTANTIATE_PARAMS, cuGraphInstantiateWithParams)
#define CBID_1(ours, theirs) SAME(TD_CBID_##ours, CUPTI_DRIVER_TRACE_CBID_##theirs)
CBID_1(GRAPH_INSTANTIATE, cuGraphInstantiate) CBID_1(GRAPH_INSTANTIATE_V2, cuGraphInstantiate_v2) CBID_1(GRAPH_INSTANTIATE_FLAGS, cuGraphInstantiateWithFlags)
CBID_1(GRAPH_CLONE, cuGraphClone) CBID_1(GRAPH_DESTROY, cuGraphDestroy) CBID_1(GRAPH_EXEC_DESTROY, cuGraphExecDestroy)
CBID_1(GRAPH_EXEC_UPDATE, cuGraphExecUpdate) CBID_1(GRAPH_EXEC_UPDATE_V2, cuGraphExecUpdate_v2) CBID_1(GRAPH_NODE_SET_ENABLED, cuGraphNodeSetEnabled)
CBID_1(GRAPH_EXEC_KERNEL_SET, cuGraphExecKernelNodeSetParams) CBID_1(GRAPH_EXEC_KERNEL_SET_V2, cuGraphExecKernelNodeSetParams_v2)
CBID_1(GRAPH_EXEC_MEMCPY_SET, cuGraphExecMemcpyNodeSetParams) CBID_1(GRAPH_EXEC_MEMSET_SET, cuGraphExecMemsetNodeSetParams)
CBID_1(GRAPH_EXEC_CHILD_SET, cuGraphExecChildGraphNodeSetParams) CBID_1(GRAPH_EXEC_NODE_SET, cuGraphExecNodeSetParams)
CBID_1(GRAPH_ADD_CHILD, cuGraphAddChildGraphNode) CBID_1(GRAPH_ADD_NODE, cuGraphAddNode) CBID_1(GRAPH_ADD_NODE_V2, cuGraphAddNode_v2)
CBID_1(GRAPH_KERNEL_SET, cuGraphKernelNodeSetParams) CBID_1(GRAPH_KERNEL_SET_V2, cuGraphKernelNodeSetParams_v2)
CBID_1(GRAPH_MEMCPY_SET, cuGraphMemcpyNodeSetParams) CBID_1(GRAPH_NODE_SET, cuGraphNodeSetParams) CBID_1(GRAPH_DESTROY_NODE, cuGraphDestroyNode)

SIZE(td_cupti_data, CUpti_CallbackData) MEMBER(td_cupti_data, site, CUpti_CallbackData, callbackSite) MEMBER(td_cupti_data, params, CUpti_CallbackData, functionParams)
MEMBER(td_cupti_data, result, CUpti_CallbackData, functionReturnValue) MEMBER(td_cupti_data, symbol, CUpti_CallbackData, symbolName)
MEMBER(td_cupti_data, context, CUpti_CallbackData, context) MEMBER(td_cupti_data, correlation_data, CUpti_CallbackData, correlationData)
#define LAUNCH(theirs) \
    MEMBER(td_cupti_launch_params, function, theirs, f) MEMBER(td_cupti_launch_params, grid, theirs, gridDimX) MEMBER(td_cupti_launch_params, block, theirs, blockDimX) \
    MEMBER(td_cupti_launch_params, shared_bytes, theirs, sharedMemBytes) MEMBER(td_cupti_launch_params, stream, theirs, hStream) \
    MEMBER(td_cupti_launch_params, params, theirs, kernelParams)
LAUNCH(cuLaunchKernel_params) LAUNCH(cuLaunchKernel_ptsz_params) LAUNCH(cuLaunchCooperativeKernel_params) LAUNCH(cuLaunchCooperativeKernel_ptsz_params)
MEMBER(td_cupti_launch_params, extra, cuLaunchKernel_params, extra)
#define LAUNCH_EX(theirs) \
    SIZE(td_cupti_launch_ex_params, theirs) MEMBER(td_cupti_launch_ex_params, config, theirs, config) MEMBER(td_cupti_launch_ex_params, function, theirs, f) \
    MEMBER(td_cupti_launch_ex_params, params, theirs, kernelParams) MEMBER(td_cupti_launch_ex_params, extra, theirs, extra)
LAUNCH_EX(cuLaunchKernelEx_params) LAUNCH_EX(cuLaunchKernelEx_ptsz_params)
SIZE(td_cupti_graph_launch_params, cuGraphLaunch_params) MEMBER(td_cupti_graph_launch_params, exec, cuGraphLaunch_params, hGraph)
MEMBER(td_cupti_graph_launch_params, stream, cuGraphLaunch_params, hStream)
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
SAME(TD_CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL) SAME(TD_CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
SAME(TD_CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)
/* Each record of a kernel that a CUPTI of CUDA 12 or 13 may write, as far as these headers have it. */
#define KERNEL(theirs) \
    MEMBER(td_cupti_kernel, kind, theirs, kind) MEMBER(td_cupti_kernel, start, theirs, start) MEMBER(td_cupti_kernel, end, theirs, end) \
    MEMBER(td_cupti_kernel, name, theirs, name) _Static_assert(sizeof(struct td_cupti_kernel) <= sizeof(theirs), #theirs);
KERNEL(CUpti_ActivityKernel8) KERNEL(CUpti_ActivityKernel9)
#if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10)
#endif
#if CUPTI_API_VERSION >= 130500
KERNEL(CUpti_ActivityKernel11) KERNEL(CUpti_ActivityKernel12) KERNEL(CUpti_ActivityKernel13)
#endif
_Static_assert(CUPTI_API_VERSION >= TD_CUPTI_VERSION_12_0 && CUPTI_API_VERSION <= TD_CUPTI_VERSION_13_5, "no version that was looked at");
/* Not yet in CUPTI 12: CUpti_SubscriberParams */
#ifdef CUpti_SubscriberParams_STRUCT_SIZE
SIZE(td_cupti_subscriber, CUpti_SubscriberParams) MEMBER(td_cupti_subscriber, name, CUpti_SubscriberParams, subscriberName)
MEMBER(td_cupti_subscriber, old_name, CUpti_SubscriberParams, oldSubscriberName) MEMBER(td_cupti_subscriber, old_size, CUpti_SubscriberParams, oldSubscriberSize)
#endif
