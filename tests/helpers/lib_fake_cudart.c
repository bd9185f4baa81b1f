/* lib_fake_cudart.c - a fake libcudart.so.13 over the fake driver: the functions of graphs that torch
 * calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "tests/helpers/fake_cuda/fake_api.h"

int cudaStreamBeginCapture(void *stream, int mode);
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

/* A server that changes a node by hand; here nothing changes. */
int cudaGraphExecKernelNodeSetParams(void *exec, void *node, const void *params)
{
    (void)node, (void)params;
    return exec ? 0 : TD_CUDA_INVALID_VALUE;
}

int cudaGraphLaunch(void *exec, void *stream)
{
    if (fake_cudart_refuse) {
        fake_cudart_refuse--;
        return last_error = TD_CUDA_INVALID_VALUE;
    }
    if (fake_cudart_pause_us)
        usleep(fake_cudart_pause_us);
    fake_cudart_launched = exec;
    return cuGraphLaunch(exec, stream);
}
