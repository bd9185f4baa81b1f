/* lib_fake_cudart.c - a fake libcudart.so.13 over the fake driver: the functions of graphs that torch
 * calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <unistd.h>

#include "tests/helpers/fake_cuda/fake_api.h"

int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamBeginCaptureToGraph(void *stream, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cudaGraphClone(void **clone, void *graph);
int cudaGraphDestroy(void *graph);
int cudaGraphExecDestroy(void *exec);
int cudaGraphExecUpdate(void *exec, void *graph, void *info);
int cudaGraphExecKernelNodeSetParams(void *exec, void *node, const void *params);
int cudaGraphLaunch(void *exec, void *stream);
int cudaPeekAtLastError(void);
int cudaGetLastError(void);

/* The executable graph that was launched last. */
extern void *fake_cudart_launched;
void *fake_cudart_launched;
extern unsigned fake_cudart_pause_us;  /* before each launch, of a thread that loses its core */
unsigned fake_cudart_pause_us;
extern int fake_cudart_refuse, fake_cudart_refuse_update; /* so many launches, and updates, fail */
int fake_cudart_refuse, fake_cudart_refuse_update;
extern _Atomic unsigned fake_cudart_together; /* launches of a graph while another thread launched it: CUDA allows none */
_Atomic unsigned fake_cudart_together;
static void *_Atomic under_way[8];     /* graphs that threads are launching */

static _Thread_local int last_error;  /* of a launch; as the real one, it stays until somebody takes it */

int cudaPeekAtLastError(void)
{
    return last_error;
}

int cudaGetLastError(void)
{
    int rc = last_error;

    last_error = 0;
    return rc;
}

int cudaStreamBeginCapture(void *stream, int mode)
{
    return cuStreamBeginCapture_v2(stream, mode);
}

int cudaStreamBeginCaptureToGraph(void *stream, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, int mode)
{
    return cuStreamBeginCaptureToGraph(stream, graph, after, edges, n, mode);
}

int cudaStreamEndCapture(void *stream, void **graph)
{
    return cuStreamEndCapture(stream, graph);
}

int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    return cuGraphInstantiateWithFlags(exec, graph, flags);
}

int cudaGraphClone(void **clone, void *graph)
{
    return cuGraphClone(clone, graph);
}

int cudaGraphDestroy(void *graph)
{
    return cuGraphDestroy(graph);
}

int cudaGraphExecDestroy(void *exec)
{
    return cuGraphExecDestroy(exec);
}

int cudaGraphExecUpdate(void *exec, void *graph, void *info)
{
    if (fake_cudart_refuse_update) {
        fake_cudart_refuse_update--;
        return TD_CUDA_INVALID_VALUE;
    }
    return cuGraphExecUpdate_v2(exec, graph, info);
}

/* A server that adds a node by hand, or changes one; here nothing changes. */
#define CHANGES(fn) \
    int fn(void *first, void *second); \
    int fn(void *first, void *second) \
    { \
        return first || second ? 0 : TD_CUDA_INVALID_VALUE; \
    }
CHANGES(cudaGraphAddChildGraphNode)
CHANGES(cudaGraphAddDependencies_v2)
CHANGES(cudaGraphAddEventRecordNode)
CHANGES(cudaGraphAddNode_v2)
CHANGES(cudaGraphChildGraphNodeGetGraph)
CHANGES(cudaGraphExecChildGraphNodeSetParams)
CHANGES(cudaGraphExecHostNodeSetParams)
CHANGES(cudaGraphExecMemcpyNodeSetParams)
CHANGES(cudaGraphExecMemsetNodeSetParams)
CHANGES(cudaGraphExecNodeSetParams)
CHANGES(cudaGraphHostNodeSetParams)
CHANGES(cudaGraphKernelNodeSetAttribute)
CHANGES(cudaGraphNodeSetEnabled)

/* A server that changes a node by hand; here nothing changes. */
int cudaGraphExecKernelNodeSetParams(void *exec, void *node, const void *params)
{
    (void)node, (void)params;
    return exec ? 0 : TD_CUDA_INVALID_VALUE;
}

/* Returns its place, which is free again after the launch. */
static unsigned launch_begins(void *exec)
{
    unsigned i, mine;
    void *none = NULL;

    for (mine = 0; !atomic_compare_exchange_strong(&under_way[mine], &none, exec); mine = (mine + 1) % 8)
        none = NULL;
    for (i = 0; i < 8; i++)
        fake_cudart_together += i != mine && under_way[i] == exec;
    return mine;
}

int cudaGraphLaunch(void *exec, void *stream)
{
    unsigned mine;
    int rc;

    if (fake_cudart_refuse) {
        fake_cudart_refuse--;
        return last_error = TD_CUDA_INVALID_VALUE;
    }
    mine = launch_begins(exec);
    if (fake_cudart_pause_us)
        usleep(fake_cudart_pause_us);
    __atomic_store_n(&fake_cudart_launched, exec, __ATOMIC_RELAXED); /* threads launch at once */
    rc = cuGraphLaunch(exec, stream);
    under_way[mine] = NULL;
    return rc;
}
