/* hip_hooks.c - the functions of libamdhip64 before which the tap stands: those that launch, and
 * those that end what the tap relies on.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Not here: hipLaunchByPtr (of programs from before HIP 4), and launches on several devices at
 * once. Calls of a function that was found by dlsym (as Triton does) do not come by here. */
#include "recorder/tap/hip/hip_launch.h"
#include "recorder/tap/hip/hip_load.h"
#include "recorder/tap/hip/hip_real.h"
#include "recorder/tap/hip/hip_use.h"

/* Define a function that launches. What follows `values` describes the call. */
#define THROUGH(fn, arguments, values, ...) \
    TAP_EXPORT int fn arguments; \
    int fn arguments \
    { \
        static struct tap_symbol symbol = {.name = TEXT(fn)}; \
        int(*real) arguments = (int(*) arguments)tap_hip_real(&symbol, __COUNTER__ % 32, \
                                                              __builtin_return_address(0)); \
        struct tap_hip_call call; \
        int rc; \
\
        if (!real) \
            return TD_HIP_ERROR_UNKNOWN; \
        if (!tap_hip_awake()) { \
            if (!tap_hip_used()) /* another front woke the tap before HIP's first launch */ \
                tap_hip_note_launch((const void *)real); \
            return real values; \
        } \
        call = (struct tap_hip_call){__VA_ARGS__}; \
        tap_hip_launch_begin(&call, (const void *)real); \
        rc = real values; \
        return tap_hip_launch_end(&call, rc); \
    }
#define TEXT(fn) TEXT_OF(fn)
#define TEXT_OF(fn) #fn

#define OF_STUB \
    .stub = stub, .grid = {grid.x, grid.y, grid.z}, .block = {block.x, block.y, block.z}, \
    .shared_bytes = shared_bytes, .stream = stream, .params = params
#define OF_FUNCTION                                                                                \
    .function = function, .grid = {gx, gy, gz}, .block = {bx, by, bz},                             \
    .shared_bytes = shared_bytes, .stream = stream, .params = params

THROUGH(hipLaunchKernel, TD_HIP_STUB_ARGUMENTS, TD_HIP_STUB_VALUES, OF_STUB)
THROUGH(hipLaunchKernel_spt, TD_HIP_STUB_ARGUMENTS, TD_HIP_STUB_VALUES, OF_STUB,
        .per_thread = true)
THROUGH(hipLaunchCooperativeKernel, TD_HIP_TOGETHER_ARGUMENTS, TD_HIP_STUB_VALUES, OF_STUB)
THROUGH(hipLaunchCooperativeKernel_spt, TD_HIP_TOGETHER_ARGUMENTS, TD_HIP_STUB_VALUES, OF_STUB,
        .per_thread = true)
THROUGH(hipExtLaunchKernel, TD_HIP_EXT_STUB_ARGUMENTS, TD_HIP_EXT_STUB_VALUES, OF_STUB)
THROUGH(hipModuleLaunchKernel, TD_HIP_MODULE_ARGUMENTS, TD_HIP_MODULE_VALUES, OF_FUNCTION,
        .extra = extra)
THROUGH(hipModuleLaunchCooperativeKernel, TD_HIP_MODULE_TOGETHER_ARGUMENTS,
        TD_HIP_MODULE_TOGETHER_VALUES, OF_FUNCTION)
THROUGH(TD_HIP_EXT_MANGLED, TD_HIP_EXT_ARGUMENTS, TD_HIP_EXT_VALUES, OF_FUNCTION, .extra = extra,
        .items = true)
THROUGH(TD_HIP_HCC_MANGLED, TD_HIP_HCC_ARGUMENTS, TD_HIP_HCC_VALUES, OF_FUNCTION, .extra = extra,
        .items = true)
THROUGH(hipExtModuleLaunchKernel, TD_HIP_EXT_ARGUMENTS, TD_HIP_EXT_VALUES, OF_FUNCTION,
        .extra = extra, .items = true)
THROUGH(hipHccModuleLaunchKernel, TD_HIP_HCC_ARGUMENTS, TD_HIP_HCC_VALUES, OF_FUNCTION,
        .extra = extra, .items = true)

#define OF_CONFIG \
    .shared_bytes = config ? config->shared_bytes : 0, .stream = config ? config->stream : NULL, \
    .params = params
#define OF_DIM(d) {config ? config->d.x : 0, config ? config->d.y : 0, config ? config->d.z : 0}
#define OF_ARRAY(d) \
    {config ? config->d[0] : 0, config ? config->d[1] : 0, config ? config->d[2] : 0}
THROUGH(hipLaunchKernelExC,
        (const struct td_hip_stub_config *config, const void *stub, void **params),
        (config, stub, params), .stub = stub, OF_CONFIG, .grid = OF_DIM(grid),
        .block = OF_DIM(block))
THROUGH(hipDrvLaunchKernelEx,
        (const struct td_hip_config *config, void *function, void **params, void **extra),
        (config, function, params, extra), .function = function, OF_CONFIG, .grid = OF_ARRAY(grid),
        .block = OF_ARRAY(block), .extra = extra)

/* Define a function that does not launch: `before` runs before the real one. */
#define BESIDE(fn, arguments, values, before) \
    TAP_EXPORT int fn arguments; \
    int fn arguments \
    { \
        static struct tap_symbol symbol = {.name = #fn}; \
        int(*real) arguments = (int(*) arguments)tap_hip_real(&symbol, __COUNTER__ % 32, \
                                                              __builtin_return_address(0)); \
\
        if (!real) \
            return TD_HIP_ERROR_UNKNOWN; \
        before; \
        return real values; \
    }
#define WHEN_AWAKE(x) if (tap_hip_awake()) x
BESIDE(hipGraphLaunch, (void *graph, void *stream), (graph, stream),
       WHEN_AWAKE(tap_hip_note_graph((const void *)real)))
BESIDE(hipGraphLaunch_spt, (void *graph, void *stream), (graph, stream),
       WHEN_AWAKE(tap_hip_note_graph((const void *)real)))
BESIDE(hipSetDevice, (int device), (device), tap_hip_note_device(device))
BESIDE(hipDeviceReset, (void), (), tap_hip_reset())
BESIDE(hipDevicePrimaryCtxReset, (int device), (device), tap_hip_reset())
BESIDE(hipStreamDestroy, (void *stream), (stream), tap_hip_stream_ended())

_Static_assert(__COUNTER__ <= 32, "tap_hip_real: a number each");
