/* cupti_abi.h - the part of CUPTI's binary interface that the tap uses: callbacks of the CUDA driver,
 * and the times of kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Declared here so that the tap builds without CUDA. Source: cupti_callbacks.h, cupti_activity.h,
 * cupti_result.h, cupti_driver_cbid.h and generated_cuda_meta.h of CUDA 13.0; tests/e2e/055-cupti-abi compares
 * where they are installed. A CUptiResult is an int, a subscriber a void *. */
#ifndef TD_KERNELS_ABI_CUPTI_ABI_H
#define TD_KERNELS_ABI_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { TD_CUPTI_SUCCESS = 0, TD_CUPTI_MULTIPLE_SUBSCRIBERS = 39 };
enum { TD_CUPTI_DOMAIN_DRIVER = 1, TD_CUPTI_ENTER = 0, TD_CUPTI_EXIT = 1 };

/* Numbers of driver functions; PTSZ: their variants for per-thread default streams. */
enum td_cupti_cbid {                   /* CUpti_driver_api_trace_cbid */
    TD_CBID_LAUNCH_KERNEL = 307, TD_CBID_LAUNCH_KERNEL_PTSZ = 442,
    TD_CBID_LAUNCH_COOPERATIVE = 477, TD_CBID_LAUNCH_COOPERATIVE_PTSZ = 478,
    TD_CBID_GRAPH_LAUNCH = 514, TD_CBID_GRAPH_LAUNCH_PTSZ = 515,
    TD_CBID_LAUNCH_KERNEL_EX = 652, TD_CBID_LAUNCH_KERNEL_EX_PTSZ = 653,
    TD_CBID_BEGIN_CAPTURE = 495, TD_CBID_BEGIN_CAPTURE_PTSZ = 496,
    TD_CBID_BEGIN_CAPTURE_V2 = 539, TD_CBID_BEGIN_CAPTURE_V2_PTSZ = 540,
    TD_CBID_BEGIN_CAPTURE_TO_GRAPH = 720, TD_CBID_BEGIN_CAPTURE_TO_GRAPH_PTSZ = 721,
    TD_CBID_END_CAPTURE = 497, TD_CBID_END_CAPTURE_PTSZ = 498,
    TD_CBID_GRAPH_INSTANTIATE = 513, TD_CBID_GRAPH_INSTANTIATE_V2 = 578,
    TD_CBID_GRAPH_INSTANTIATE_FLAGS = 643,
    TD_CBID_GRAPH_INSTANTIATE_PARAMS = 656, TD_CBID_GRAPH_INSTANTIATE_PARAMS_PTSZ = 657,
    TD_CBID_GRAPH_CLONE = 523, TD_CBID_GRAPH_DESTROY = 517, TD_CBID_GRAPH_EXEC_DESTROY = 516,
    TD_CBID_GRAPH_EXEC_UPDATE = 561, TD_CBID_GRAPH_EXEC_UPDATE_V2 = 696,
    TD_CBID_GRAPH_EXEC_KERNEL_SET = 538, TD_CBID_GRAPH_EXEC_KERNEL_SET_V2 = 692,
    TD_CBID_GRAPH_EXEC_MEMCPY_SET = 562, TD_CBID_GRAPH_EXEC_MEMSET_SET = 563,
    TD_CBID_GRAPH_EXEC_CHILD_SET = 586, TD_CBID_GRAPH_EXEC_NODE_SET = 714,
    TD_CBID_GRAPH_NODE_SET_ENABLED = 650,
    TD_CBID_GRAPH_ADD_CHILD = 525, TD_CBID_GRAPH_ADD_NODE = 712, TD_CBID_GRAPH_ADD_NODE_V2 = 723,
    TD_CBID_GRAPH_KERNEL_SET = 521, TD_CBID_GRAPH_KERNEL_SET_V2 = 691,
    TD_CBID_GRAPH_MEMCPY_SET = 520, TD_CBID_GRAPH_NODE_SET = 713, TD_CBID_GRAPH_DESTROY_NODE = 522
};

struct td_cupti_data {                 /* CUpti_CallbackData */
    int site;
    const char *function;
    const void *params;                /* of the function called: a struct below */
    void *result;                      /* at exit: what the function returned, of its type */
    const char *symbol;                /* the kernel's */
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;        /* one word that enter and exit of a call share */
    uint32_t correlation_id;
};
typedef void td_cupti_fn(void *user, int domain, uint32_t cbid, const void *data);

struct td_cuda_launch_config;          /* cuda_abi.h */

/* cuLaunchKernel_params; also of cuLaunchCooperativeKernel, whose struct ends before `extra` */
struct td_cupti_launch_params {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    void **params, **extra;
};
struct td_cupti_launch_ex_params {     /* cuLaunchKernelEx_params */
    const struct td_cuda_launch_config *config;
    void *function;
    void **params, **extra;
};
struct td_cupti_graph_launch_params { void *exec, *stream; }; /* cuGraphLaunch_params */

/* The calls that make, change and destroy graphs need no struct: the first two words of their
 * parameters are (stream, graph *) of cuStreamEndCapture, (exec *, graph) of cuGraphInstantiate*,
 * (clone *, graph) of cuGraphClone, (exec, graph) of cuGraphExecUpdate*, (node *, graph) of
 * cuGraphAdd*, and the first word is (exec) of all others. */

struct td_cupti_subscriber {           /* CUpti_SubscriberParams */
    size_t struct_size;
    const char *name;
    char *old_name;
    size_t old_size;
};

/* X(name in the library, member, arguments) */
#define TD_CUPTI_NEEDED(X) \
    X(cuptiSubscribe, subscribe, (void **subscriber, td_cupti_fn *callback, void *user)) \
    X(cuptiEnableCallback, enable, (uint32_t on, void *subscriber, int domain, uint32_t cbid)) \
    X(cuptiUnsubscribe, unsubscribe, (void *subscriber))

/* Since CUPTI 13; the member is NULL with an older one. */
#define TD_CUPTI_OPTIONAL(X) \
    X(cuptiSubscribe_v2, subscribe_v2, (void **subscriber, td_cupti_fn *callback, void *user, \
                                        struct td_cupti_subscriber *params))

/* ---- times of kernels ------------------------------------------------------------------------ */

enum { TD_CUPTI_KIND_KERNEL = 3, TD_CUPTI_KIND_CONCURRENT_KERNEL = 10, TD_CUPTI_FLUSH_FORCED = 1 };

/* What CUpti_ActivityKernel3 to CUpti_ActivityKernel13 have in common, up to the name. The records of
 * CUDA 12 and of 13.0 to 13.5 are among these; cuptiGetVersion() counts so for them. */
struct td_cupti_kernel {
    int kind;
    uint8_t before[12];
    uint64_t start, end;               /* ns; 0: not known */
    uint8_t between[72];
    const char *name;                  /* CUPTI's own, as the driver spells it */
};
enum { TD_CUPTI_VERSION_12_0 = 19, TD_CUPTI_VERSION_12_9 = 28, TD_CUPTI_VERSION_13_0 = 130000,
       TD_CUPTI_VERSION_13_5 = 130599 };

typedef void td_cupti_request_fn(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void td_cupti_complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                  size_t valid_bytes);

/* In every CUPTI since CUDA 11; the members are NULL with a library that lacks them. */
#define TD_CUPTI_TIMES(X) \
    X(cuptiGetVersion, get_version, (uint32_t *version)) \
    X(cuptiActivityRegisterCallbacks, register_buffers, (td_cupti_request_fn *request, \
                                                         td_cupti_complete_fn *complete)) \
    X(cuptiActivityEnable, activity_enable, (int kind)) \
    X(cuptiActivityDisable, activity_disable, (int kind)) \
    X(cuptiActivityFlushAll, activity_flush, (uint32_t how)) \
    X(cuptiActivityGetNextRecord, activity_next, (uint8_t *buffer, size_t valid_bytes, \
                                                  void **record)) \
    X(cuptiActivityGetNumDroppedRecords, activity_lost, (void *context, uint32_t stream, \
                                                         size_t *n))

#endif
