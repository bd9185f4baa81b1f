/* cudart_hooks.c - the tap before the functions of libcudart that capture, make, change, launch and
 * destroy graphs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * torch's libraries import them from libcudart.so, so LD_PRELOAD stands before them. What a handle
 * of the runtime is, is one of the driver too (cuda_runtime_api.h of CUDA 13.0, "Interactions with
 * the CUDA Driver API"). All arguments are words; which of them matter is in cuda_graph_follow.h. */
#include <errno.h>

#include "recorder/tap/core/tap_real.h"
#include "recorder/tap/core/tap_spent.h"
#include "recorder/tap/cuda/cuda_twins.h"

#define NOT_FOUND 500                 /* cudaErrorSymbolNotFound */

typedef uintptr_t word;
#define P1 word a
#define P2 P1, word b
#define P3 P2, word c
#define P4 P3, word d
#define P5 P4, word e
#define P6 P5, word f
#define P7 P6, word g
#define P8 P7, word h
#define P9 P8, word i
#define A1 a
#define A2 A1, b
#define A3 A2, c
#define A4 A3, d
#define A5 A4, e
#define A6 A5, f
#define A7 A6, g
#define A8 A7, h
#define A9 A8, i
#define SECOND1 0
#define SECOND2 b
#define SECOND3 b
#define SECOND4 b
#define SECOND5 b
#define SECOND6 b
#define SECOND7 b
#define SECOND8 b
#define SECOND9 b

static void *find(struct tap_symbol *s, const void *caller)
{
    int e = errno;
    void *real = tap_real_find(s, caller);

    errno = e;
    return real;
}

/* Calls of a server's start are timed; a server may change its graphs before each launch. */
static bool is_rare(enum tap_cuda_graph_call call)
{
    return call <= TAP_CUDA_CLONE || call == TAP_CUDA_GRAPH_GONE;
}

static void before(enum tap_cuda_graph_call call, word first, word second)
{
    void *const words[] = {(void *)first, (void *)second};
    const int64_t begun = is_rare(call) ? tap_spent_begin() : 0;
    int e = errno;

    tap_cuda_follow_before(call, words);
    if (begun)
        tap_spent_end(begun);
    errno = e;
}

static void after(enum tap_cuda_graph_call call, word first, word second, bool ok)
{
    void *const words[] = {(void *)first, (void *)second};
    const int64_t begun = is_rare(call) ? tap_spent_begin() : 0;
    int e = errno;

    tap_cuda_follow_after(call, words, ok);
    if (begun)
        tap_spent_end(begun);
    errno = e;
}

/* A function of n arguments, which the tap follows. */
#define FOLLOWED(fn, n, call) \
    TAP_EXPORT int fn(P##n); \
    int fn(P##n) \
    { \
        static struct tap_symbol s = {.name = #fn}; \
        int (*real)(P##n) = (int (*)(P##n))find(&s, __builtin_return_address(0)); \
        const bool on = tap_cuda_twins_on(); \
        int rc; \
\
        if (on) \
            before(call, a, SECOND##n); \
        rc = real ? real(A##n) : NOT_FOUND; \
        if (on) \
            after(call, a, SECOND##n, rc == 0); \
        return rc; \
    }

/* ---- captures -------------------------------------------------------------------------------- */

FOLLOWED(cudaStreamBeginCapture, 2, TAP_CUDA_BEGIN)
FOLLOWED(cudaStreamBeginCapture_ptsz, 2, TAP_CUDA_BEGIN)
FOLLOWED(cudaStreamBeginCaptureToGraph, 6, TAP_CUDA_BEGIN_IN)
FOLLOWED(cudaStreamBeginCaptureToGraph_ptsz, 6, TAP_CUDA_BEGIN_IN)
FOLLOWED(cudaStreamEndCapture, 2, TAP_CUDA_END)
FOLLOWED(cudaStreamEndCapture_ptsz, 2, TAP_CUDA_END)

/* ---- graphs that are changed or gone --------------------------------------------------------- */

FOLLOWED(cudaGraphClone, 2, TAP_CUDA_CLONE)
FOLLOWED(cudaGraphDestroy, 1, TAP_CUDA_GRAPH_GONE)
FOLLOWED(cudaGraphAddDependencies, 5, TAP_CUDA_GRAPH_GONE)
FOLLOWED(cudaGraphRemoveDependencies, 5, TAP_CUDA_GRAPH_GONE)
FOLLOWED(cudaGraphAddDependencies_v2, 5, TAP_CUDA_GRAPH_GONE)
FOLLOWED(cudaGraphRemoveDependencies_v2, 5, TAP_CUDA_GRAPH_GONE)
FOLLOWED(cudaGraphAddNode, 6, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddNode_v2, 6, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddKernelNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemcpyNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemcpyNode1D, 8, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemcpyNodeToSymbol, 9, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemcpyNodeFromSymbol, 9, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemAllocNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemFreeNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddEventRecordNode, 5, TAP_CUDA_GRAPH_GREW)
FOLLOWED(cudaGraphAddEventWaitNode, 5, TAP_CUDA_GRAPH_GREW)
FOLLOWED(cudaGraphAddExternalSemaphoresSignalNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddExternalSemaphoresWaitNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddMemsetNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddHostNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddChildGraphNode, 5, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphAddEmptyNode, 4, TAP_CUDA_GRAPH_CHANGED)
FOLLOWED(cudaGraphDestroyNode, 1, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphKernelNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphMemcpyNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphMemcpyNodeSetParams1D, 5, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphMemcpyNodeSetParamsToSymbol, 6, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphMemcpyNodeSetParamsFromSymbol, 6, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphMemsetNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphHostNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphEventRecordNodeSetEvent, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphEventWaitNodeSetEvent, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphExternalSemaphoresSignalNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphExternalSemaphoresWaitNodeSetParams, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphKernelNodeSetAttribute, 3, TAP_CUDA_ANY_GRAPH_CHANGED)
FOLLOWED(cudaGraphKernelNodeCopyAttributes, 2, TAP_CUDA_ANY_GRAPH_CHANGED)
/* What is done to the graph within is not told of the one around it. */
FOLLOWED(cudaGraphChildGraphNodeGetGraph, 2, TAP_CUDA_ANY_GRAPH_CHANGED)

FOLLOWED(cudaGraphExecDestroy, 1, TAP_CUDA_EXEC_GONE)
FOLLOWED(cudaGraphNodeSetEnabled, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecKernelNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecMemcpyNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecMemcpyNodeSetParams1D, 6, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecMemcpyNodeSetParamsToSymbol, 7, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecMemcpyNodeSetParamsFromSymbol, 7, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecMemsetNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecHostNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecChildGraphNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecEventRecordNodeSetEvent, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecEventWaitNodeSetEvent, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecExternalSemaphoresSignalNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)
FOLLOWED(cudaGraphExecExternalSemaphoresWaitNodeSetParams, 3, TAP_CUDA_EXEC_CHANGED)

/* ---- instantiation --------------------------------------------------------------------------- */

/* Before CUDA 12 the third argument of cudaGraphInstantiate was an address. */
static unsigned long long flags_of(word third)
{
    return third < 4096 ? third : 0;
}

/* struct cudaGraphInstantiateParams begins with the flags. */
static unsigned long long flags_in(word params)
{
    return params ? *(const unsigned long long *)params : 0;
}

static void instantiated(word exec, word graph, unsigned long long flags)
{
    const int64_t begun = tap_spent_begin();
    int e = errno;

    if (exec)
        tap_cuda_twins_instantiated(*(void *const *)exec, (void *)graph, flags);
    tap_spent_end(begun);
    errno = e;
}

/* The graph is cloned before the call, since nothing says what is left of it afterwards. Before CUDA 12
 * there was a fourth argument. */
TAP_EXPORT int cudaGraphExecUpdate(P4);
int cudaGraphExecUpdate(P4)
{
    static struct tap_symbol s = {.name = "cudaGraphExecUpdate"};
    int (*real)(P4) = (int (*)(P4))find(&s, __builtin_return_address(0));
    const bool on = tap_cuda_twins_on();
    bool fits = false;
    int rc, e = errno;

    if (on)
        fits = tap_cuda_twins_update((void *)a, (void *)b);
    errno = e;
    rc = real ? real(A4) : NOT_FOUND;
    if (on)
        after(TAP_CUDA_UPDATE, a, b, rc == 0 && fits);
    return rc;
}

#define INSTANTIATES(fn, n, flags) \
    TAP_EXPORT int fn(P##n); \
    int fn(P##n) \
    { \
        static struct tap_symbol s = {.name = #fn}; \
        int (*real)(P##n) = (int (*)(P##n))find(&s, __builtin_return_address(0)); \
        const bool on = tap_cuda_twins_on(); \
        int rc = real ? real(A##n) : NOT_FOUND; \
\
        if (on) \
            after(TAP_CUDA_INSTANTIATE, a, b, rc == 0); \
        if (on && !rc) \
            instantiated(a, b, flags(c)); \
        return rc; \
    }

INSTANTIATES(cudaGraphInstantiate, 5, flags_of)
INSTANTIATES(cudaGraphInstantiateWithFlags, 3, flags_of)
INSTANTIATES(cudaGraphInstantiateWithParams, 3, flags_in)
INSTANTIATES(cudaGraphInstantiateWithParams_ptsz, 3, flags_in)

/* ---- launches -------------------------------------------------------------------------------- */

/* What the runtime keeps as this thread's last error; take: it is none afterwards. */
static int last_error(const void *caller, bool take)
{
    static struct tap_symbol peek = {.name = "cudaPeekAtLastError"},
                             get = {.name = "cudaGetLastError"};
    int (*real)(void) = (int (*)(void))find(take ? &get : &peek, caller);

    return real ? real() : NOT_FOUND;
}

#define LAUNCHES(fn) \
    TAP_EXPORT tap_cuda_launch_fn fn; \
    int fn(void *exec, void *stream) \
    { \
        static struct tap_symbol s = {.name = #fn}; \
        const void *caller = __builtin_return_address(0); \
        tap_cuda_launch_fn *real = (tap_cuda_launch_fn *)find(&s, caller); \
        const struct tap_cuda_launcher by = {real, last_error, caller}; \
\
        if (!real) \
            return NOT_FOUND; \
        return tap_cuda_twins_on() ? tap_cuda_twins_launch(exec, stream, &by) \
                                   : real(exec, stream); \
    }

LAUNCHES(cudaGraphLaunch)
LAUNCHES(cudaGraphLaunch_ptsz)
