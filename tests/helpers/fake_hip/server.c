/* server.c - the part of the fake HIP runtime that only a server uses: kernels by their stubs,
 * other forms of launch, captures and copies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * hipcc 5.2.3 compiles a host program as follows. A constructor calls __hipRegisterFatBinary and,
 * for each kernel, __hipRegisterFunction with the address of a stub. <<<>>> becomes
 * __hipPushCallConfiguration and a call of the stub, which calls __hipPopCallConfiguration and
 * hipLaunchKernel. The thread's last error follows clr's hip_internal.hpp: in old versions each
 * call sets it, in later ones only a call that fails. TD_FAKE_HIP_NO_WRITE=1: the device has no
 * hipStreamWriteValue32. */
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/hip_abi.h"
#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_hip/fake_hip.h"

#define FAT_MAGIC 0x48495046u         /* "HIPF" */
#define STUBS 256

struct fat_wrapper { uint32_t magic, version; const void *binary; void *unused; };
struct binary { const void *image; void *module; };
static struct stub { const void *address; struct binary *of; const char *name; void *function; } stubs[STUBS];
static int n_stubs;
static _Thread_local int last_error;
static _Thread_local struct { struct td_hip_dim grid, block; size_t shared_bytes; void *stream; } pushed;

#define DECLARE(name, member, args) int name args;
TD_HIP_TAP_NEEDED(DECLARE)
TD_HIP_TAP_OPTIONAL(DECLARE)
#define DECLARE_TEXT(name, member, args) const char *name args;
TD_HIP_TAP_TEXTS(DECLARE_TEXT)
#define DECLARE_SHARED(name, member, args) int name args;
TD_HIP_SHARED(DECLARE_SHARED)
TD_HIP_PINNING(DECLARE_SHARED)

/* ---- errors and devices ---------------------------------------------------------------------- */

int fake_hip_return(int result)
{
    if (result || fake_hip_is_old())
        last_error = result;
    return result;
}

int hipPeekAtLastError(void)
{
    return last_error;
}

int hipGetLastError(void)
{
    int e = last_error;

    last_error = 0;
    return e;
}

/* A thread that has set no device uses the first. */
static void have_device(void)
{
    void *context = NULL;

    if (cuCtxGetCurrent(&context) || !context)
        hipSetDevice(0);
}

int hipGetDevice(int *device)
{
    have_device();
    return fake_hip_return(cuCtxGetDevice(device));
}

/* The real runtime dereferences the handle, so a bad handle faults. This one does the same. */
int hipGetStreamDeviceId(void *stream)
{
    int device = -1;

    return stream == TD_HIP_STREAM_PER_THREAD || stream == TD_HIP_STREAM_LEGACY ? *(volatile int *)stream : hipGetDevice(&device) ? -1 : device;
}

/* ---- kernels by their stubs ------------------------------------------------------------------ */

void **__hipRegisterFatBinary(const struct fat_wrapper *w);
void __hipUnregisterFatBinary(void **modules);
void __hipRegisterFunction(void **modules, const void *stub, char *symbol, const char *name, unsigned threads, void *tid, void *bid, void *block, void *grid, int *warp);
int __hipPushCallConfiguration(struct td_hip_dim grid, struct td_hip_dim block, size_t shared_bytes, void *stream);
int __hipPopCallConfiguration(struct td_hip_dim *grid, struct td_hip_dim *block, size_t *shared_bytes, void **stream);

void **__hipRegisterFatBinary(const struct fat_wrapper *w)
{
    struct binary *b = calloc(1, sizeof *b);

    if (!b || w->magic != FAT_MAGIC || w->version != 1)
        abort();
    b->image = w->binary;
    return (void **)b;
}

void __hipUnregisterFatBinary(void **modules)
{
    (void)modules;                    /* at the end of the program; our stubs stay */
}

void __hipRegisterFunction(void **modules, const void *stub, char *symbol, const char *name, unsigned threads, void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)symbol, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (n_stubs == STUBS)
        abort();
    stubs[n_stubs++] = (struct stub){stub, (struct binary *)modules, name, NULL};
}

int __hipPushCallConfiguration(struct td_hip_dim grid, struct td_hip_dim block, size_t shared_bytes, void *stream)
{
    pushed.grid = grid, pushed.block = block, pushed.shared_bytes = shared_bytes, pushed.stream = stream;
    return 0;
}

int __hipPopCallConfiguration(struct td_hip_dim *grid, struct td_hip_dim *block, size_t *shared_bytes, void **stream)
{
    *grid = pushed.grid, *block = pushed.block, *shared_bytes = pushed.shared_bytes, *stream = pushed.stream;
    return 0;
}

/* The function of a stub. As in the runtime, the code is loaded at the first use of one of its
 * kernels. */
static void *function_of(const void *address)
{
    int i = 0;

    have_device();
    while (i < n_stubs && stubs[i].address != address)
        i++;
    if (i == n_stubs || (!stubs[i].of->module && hipModuleLoadData(&stubs[i].of->module, stubs[i].of->image)) ||
        (!stubs[i].function && hipModuleGetFunction(&stubs[i].function, stubs[i].of->module, stubs[i].name)))
        return NULL;
    return stubs[i].function;
}

const char *hipKernelNameRef(void *function)
{
    const struct td_gpu_kernel *k = fake_hip_kernel(function);

    return k ? k->symbol : NULL;
}

const char *hipKernelNameRefByPtr(const void *stub, void *stream)
{
    if (stream)
        hipGetStreamDeviceId(stream);
    return hipKernelNameRef(function_of(stub));
}

/* ---- launches -------------------------------------------------------------------------------- */

#define MODULE_LAUNCH(f, g, b) hipModuleLaunchKernel(f, g, b, (unsigned)shared_bytes, stream, params, NULL)
#define DIM(d) (d).x, (d).y, (d).z

int hipLaunchKernel TD_HIP_STUB_ARGUMENTS;
int hipLaunchKernel_spt TD_HIP_STUB_ARGUMENTS;
int hipExtLaunchKernel TD_HIP_EXT_STUB_ARGUMENTS;
int hipLaunchCooperativeKernel TD_HIP_TOGETHER_ARGUMENTS;
int TD_HIP_EXT_MANGLED TD_HIP_EXT_ARGUMENTS;

static int launch_stub(const void *stub, struct td_hip_dim grid, struct td_hip_dim block, void **params, size_t shared_bytes, void *stream)
{
    void *f = function_of(stub);

    return f ? hipModuleLaunchKernel(f, DIM(grid), DIM(block), (unsigned)shared_bytes, stream, params, NULL) : fake_hip_return(98);
}

int hipLaunchKernel TD_HIP_STUB_ARGUMENTS
{
    return launch_stub(stub, grid, block, params, shared_bytes, stream);
}

int hipLaunchKernel_spt TD_HIP_STUB_ARGUMENTS
{
    return launch_stub(stub, grid, block, params, shared_bytes, stream ? stream : TD_HIP_STREAM_PER_THREAD);
}

int hipExtLaunchKernel TD_HIP_EXT_STUB_ARGUMENTS
{
    (void)from, (void)to, (void)flags;
    return launch_stub(stub, grid, block, params, shared_bytes, stream);
}

int hipLaunchCooperativeKernel TD_HIP_TOGETHER_ARGUMENTS
{
    return launch_stub(stub, grid, block, params, shared_bytes, stream);
}

int TD_HIP_EXT_MANGLED TD_HIP_EXT_ARGUMENTS
{
    (void)from, (void)to, (void)flags;
    if (!bx || !by || !bz || gx % bx || gy % by || gz % bz)
        return fake_hip_return(TD_CUDA_INVALID_VALUE);
    return hipModuleLaunchKernel(function, gx / bx, gy / by, gz / bz, bx, by, bz, (unsigned)shared_bytes, stream, params, extra);
}

/* ---- functions that differ from CUDA's only in their names ---------------------------------- */

int hipStreamBeginCapture(void *stream, int mode);
int hipStreamEndCapture(void *stream, void **graph);
int hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int hipGraphLaunch(void *graph, void *stream);
int hipGraphDestroy(void *graph);
int hipGraphExecDestroy(void *exec);
int hipDeviceReset(void);

#define SAME(hip, cuda, args, values) \
    int hip args \
    { \
        have_device(); \
        return fake_hip_return(cuda values); \
    }
SAME(hipHostRegister, cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags), (p, bytes, flags))
SAME(hipHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (uint64_t *address, void *p, unsigned flags), (address, p, flags))
SAME(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream))
SAME(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream), (to, from, bytes, stream))
SAME(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream))
SAME(hipStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags))
SAME(hipStreamIsCapturing, cuStreamIsCapturing, (void *stream, int *status), (stream, status))
SAME(hipThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode), (mode))
SAME(hipMemsetD32Async, cuMemsetD32Async, (uint64_t to, int value, size_t n, void *stream), (to, (unsigned)value, n, stream))
SAME(hipStreamBeginCapture, cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode))
SAME(hipStreamEndCapture, cuStreamEndCapture, (void *stream, void **graph), (stream, graph))
SAME(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), (exec, graph, flags))
SAME(hipGraphDestroy, cuGraphDestroy, (void *graph), (graph))
SAME(hipGraphExecDestroy, cuGraphExecDestroy, (void *exec), (exec))
SAME(hipGraphLaunch, cuGraphLaunch, (void *graph, void *stream), (graph, stream))

/* Unlike the real function, this one frees no memory. No caller may rely on that. */
int hipDeviceReset(void)
{
    return fake_hip_return(cuCtxSynchronize());
}

/* TD_FAKE_HIP_NO_WRITE=1: the device does not support this. */
int hipStreamWriteValue32(void *stream, uint64_t to, uint32_t value, unsigned flags)
{
    const char *no = getenv("TD_FAKE_HIP_NO_WRITE");

    return fake_hip_return(no && *no == '1' ? TD_CUDA_NOT_SUPPORTED : cuStreamWriteValue32_v2(stream, to, value, flags));
}

int hipMemcpy2DAsync(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width_bytes, size_t height, int kind, void *stream)
{
    const struct td_cuda_copy_2d c = {.src_type = 2, .src_device = from, .src_pitch = from_pitch, .dst_type = 2, .dst_device = to, .dst_pitch = to_pitch,
                                      .width_bytes = width_bytes, .height = height};

    return fake_hip_return(kind == TD_HIP_COPY_ON_DEVICE ? cuMemcpy2DAsync_v2(&c, stream) : TD_CUDA_INVALID_VALUE);
}
