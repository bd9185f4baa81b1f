/* test_fake_cuda.c - the look-alike of the CUDA driver: what is not ordered comes late, what is wrong fails as on a device.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

static const struct fake_cuda_api *say;
static void *context, *module, *add;

/* out[i] += by, of n elements */
static void run_add(const struct fake_cuda_launch *l, void *user)
{
    int32_t *out = *(int32_t **)l->params[0];
    int n = *(int *)l->params[1], by = *(int *)l->params[2];

    assert_ptr_equal(user, &say);
    for (int i = 0; i < n; i++)
        out[i] += by;
}

static int setup(void **state)
{
    static const struct fake_cuda_kernel k = {.symbol = "_Z3addPiii", .n_params = 3, .param = {{0, 8}, {0, 4}, {0, 4}}, .run = run_add, .user = &say};

    (void)state;
    say = fake_cuda_api();
    say->add_kernel(&k);
    assert_int_equal(cuMemFree_v2(1), TD_CUDA_NOT_INITIALIZED);
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuMemFree_v2(1), TD_CUDA_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    assert_int_equal(cuModuleLoadData(&module, "TDFAKE _Z3addPiii _Z7unknownv"), 0);
    return cuModuleGetFunction(&add, module, "_Z3addPiii");
}

static int launch(void *stream, uint64_t out, int n, int by)
{
    void *params[] = {&out, &n, &by};

    return cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static int32_t *pinned(size_t n)
{
    void *p;

    assert_int_equal(cuMemHostAlloc(&p, n * 4, 0), 0);
    return p;
}

static uint64_t zeros(size_t n)
{
    uint64_t d;

    assert_int_equal(cuMemAlloc_v2(&d, n * 4), 0);
    assert_int_equal(cuMemsetD8_v2(d, 0, n * 4), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    return d;
}

static void test_a_copy_without_an_event_sees_old_data(void **state)
{
    void *work, *side, *event;
    int32_t *host = pinned(1);
    uint64_t d = zeros(1);

    (void)state;
    cuStreamCreate(&work, TD_CUDA_STREAM_NON_BLOCKING);
    cuStreamCreate(&side, TD_CUDA_STREAM_NON_BLOCKING);
    cuEventCreate(&event, 0);
    assert_int_equal(launch(work, d, 1, 7), 0);
    cuMemcpyDtoHAsync_v2(host, d, 4, side);
    assert_int_equal(cuStreamQuery(side), TD_CUDA_NOT_READY);
    cuStreamSynchronize(side);
    assert_int_equal(host[0], 0);
    cuEventRecord(event, work);
    cuStreamWaitEvent(side, event, 0);
    cuMemcpyDtoHAsync_v2(host, d, 4, side);
    cuStreamSynchronize(side);
    assert_int_equal(host[0], 7);
    cuStreamDestroy_v2(work);
    cuStreamDestroy_v2(side);
    cuEventDestroy_v2(event);
    cuMemFreeHost(host);
    cuMemFree_v2(d);
}

static void test_the_legacy_stream_waits_for_blocking_ones(void **state)
{
    void *stream;
    int32_t host = -1;
    uint64_t d = zeros(1);

    (void)state;
    cuStreamCreate(&stream, 0);
    launch(stream, d, 1, 3);
    assert_int_equal(cuMemcpyDtoH_v2(&host, d, 4), 0);
    assert_int_equal(host, 3);
    cuStreamDestroy_v2(stream);
    cuMemFree_v2(d);
}

static void test_functions_parameters_and_packed_blocks(void **state)
{
    struct { uint64_t out; int n, by; } block = {zeros(1), 1, 5};
    size_t bytes = sizeof block, offset, size;
    void *extra[] = {(void *)TD_CUDA_PARAM_BUFFER_POINTER, &block, (void *)TD_CUDA_PARAM_BUFFER_SIZE, &bytes, NULL}, *f, *library, *kernel;
    int32_t host;

    (void)state;
    assert_int_equal(cuModuleGetFunction(&f, module, "_Z7unknownv"), TD_CUDA_NOT_FOUND);
    assert_int_equal(cuModuleLoadData(&f, "ELF"), TD_CUDA_INVALID_IMAGE);
    assert_int_equal(cuFuncGetParamInfo(add, 2, &offset, &size), 0);
    assert_int_equal(offset, 12);
    assert_int_equal(size, 4);
    assert_int_equal(cuFuncGetParamInfo(add, 3, &offset, &size), TD_CUDA_INVALID_VALUE);
    assert_int_equal(cuKernelGetParamInfo(add, 0, &offset, &size), TD_CUDA_INVALID_HANDLE);
    assert_int_equal(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), 0);
    assert_int_equal(cuLibraryLoadData(&library, "TDFAKE _Z3addPiii", NULL, NULL, 0, NULL, NULL, 0), 0);
    assert_int_equal(cuLibraryGetKernel(&kernel, library, "_Z3addPiii"), 0);
    assert_int_equal(cuKernelGetParamInfo(kernel, 0, &offset, &size), 0);
    assert_int_equal(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), 0);
    assert_int_equal(cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, extra), TD_CUDA_INVALID_VALUE);
    cuMemcpyDtoH_v2(&host, block.out, 4);
    assert_int_equal(host, 10);
    cuLibraryUnload(library);
    cuMemFree_v2(block.out);
}

static void test_faults(void **state)
{
    uint64_t d = zeros(1), more;
    int32_t host;

    (void)state;
    say->fault("alloc", 2, TD_CUDA_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&more, 4), 0);
    cuMemFree_v2(more);
    assert_int_equal(cuMemAlloc_v2(&more, 4), TD_CUDA_OUT_OF_MEMORY);
    say->fault("launch", 1, TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
    assert_int_equal(launch(NULL, d, 1, 1), TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
    assert_int_equal(launch(NULL, d, 1, 1), 0);
    say->fault("kernel", 2, TD_CUDA_LAUNCH_FAILED); /* the next one waits in the queue, and counts too */
    assert_int_equal(launch(NULL, d, 1, 1), 0);
    assert_int_equal(cuCtxSynchronize(), TD_CUDA_LAUNCH_FAILED);
    assert_int_equal(cuMemcpyDtoH_v2(&host, d, 4), TD_CUDA_LAUNCH_FAILED);
    assert_int_equal(cuMemAlloc_v2(&more, 4), TD_CUDA_LAUNCH_FAILED);
    say->reset();
    cuMemFree_v2(d);
}

static void test_a_kernel_that_leaves_its_mapping(void **state)
{
    const struct td_cuda_allocation what = {.type = TD_CUDA_ALLOCATION_PINNED, .location = {TD_CUDA_LOCATION_DEVICE, 0}};
    const struct td_cuda_access access = {{TD_CUDA_LOCATION_DEVICE, 0}, TD_CUDA_ACCESS_READWRITE};
    unsigned long long handle;
    uint64_t d = zeros(1), base;
    size_t granule;

    (void)state;
    assert_int_equal(launch(NULL, d, 100, 1), 0); /* behind an allocation lies a neighbour: nobody notices */
    assert_int_equal(cuCtxSynchronize(), 0);
    cuMemGetAllocationGranularity(&granule, &what, 0);
    assert_int_equal(cuMemAddressReserve(&base, 2 * granule, 0, 0, 0), 0);
    assert_int_equal(cuMemCreate(&handle, granule, &what, 0), 0);
    assert_int_equal(cuMemMap(base, granule, 0, handle, 0), 0);
    assert_int_equal(cuMemsetD8_v2(base, 0, granule), TD_CUDA_INVALID_VALUE); /* not open yet */
    assert_int_equal(cuMemSetAccess(base, granule, &access, 1), 0);
    assert_int_equal(launch(NULL, base + granule - 4, 1, 1), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(launch(NULL, base + granule - 4, 2, 1), 0);
    assert_int_equal(cuCtxSynchronize(), TD_CUDA_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemUnmap(base, granule), TD_CUDA_ILLEGAL_ADDRESS);
    say->reset();
    assert_int_equal(cuMemUnmap(base, granule), 0);
    assert_int_equal(cuMemRelease(handle), 0);
    assert_int_equal(cuMemAddressFree(base, 2 * granule), 0);
    cuMemFree_v2(d);
}

static void test_a_capture_becomes_a_graph(void **state)
{
    void *stream, *graph, *exec;
    uint64_t d = zeros(1), more;
    int32_t host;
    int status;

    (void)state;
    cuStreamCreate(&stream, 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    cuStreamIsCapturing(stream, &status);
    assert_int_equal(status, TD_CUDA_CAPTURE_ACTIVE);
    assert_int_equal(launch(stream, d, 1, 2), 0);
    assert_int_equal(launch(NULL, d, 1, 2), TD_CUDA_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(cuMemAlloc_v2(&more, 4), TD_CUDA_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    cuGraphDestroy(graph);
    cuGraphLaunch(exec, stream);
    cuGraphLaunch(exec, stream);
    cuMemcpyDtoH_v2(&host, d, 4);
    assert_int_equal(host, 4);
    cuGraphExecDestroy(exec);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_int_equal(cuStreamSynchronize(stream), TD_CUDA_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), TD_CUDA_STREAM_CAPTURE_INVALIDATED);
    cuStreamDestroy_v2(stream);
    cuMemFree_v2(d);
}

static void test_the_thread_works_by_itself(void **state)
{
    uint64_t d = zeros(1), flag;
    int32_t *host = pinned(1);
    void *stream;
    int i;

    (void)state;
    *host = 0;
    cuMemHostGetDevicePointer_v2(&flag, host, 0);
    cuStreamCreate(&stream, TD_CUDA_STREAM_NON_BLOCKING);
    say->use_thread(true);
    assert_int_equal(launch(stream, d, 1, 1), 0);
    assert_int_equal(cuStreamWriteValue32_v2(stream, flag, 42, 0), 0);
    for (i = 0; i < 5000 && __atomic_load_n(host, __ATOMIC_ACQUIRE) != 42; i++)
        usleep(1000);
    assert_int_equal(*host, 42);
    say->use_thread(false);
    cuStreamDestroy_v2(stream);
    cuMemFreeHost(host);
    cuMemFree_v2(d);
}

struct seen { int enters, exits; char symbol[32]; uint64_t word; };

static void on_call(const struct fake_cuda_call *c, void *user)
{
    struct seen *s = user;

    if (!c->exit) {
        s->enters++;
        strcpy(s->symbol, c->symbol ? c->symbol : "");
        *c->correlation_data = c->cbid;
    } else {
        s->exits++;
        s->word = *c->correlation_data;
    }
}

static void test_the_hook_sees_launches(void **state)
{
    uint64_t d = zeros(1);
    struct seen s = {0};

    (void)state;
    say->on_call(on_call, &s);
    launch(NULL, d, 1, 1);
    say->on_call(NULL, NULL);
    launch(NULL, d, 1, 1);
    assert_int_equal(s.enters, 1);
    assert_int_equal(s.exits, 1);
    assert_int_equal(s.word, 307);
    assert_string_equal(s.symbol, "_Z3addPiii");
    cuMemFree_v2(d);
}

static void test_functions_by_name(void **state)
{
    void *fn;
    int status;
    const char *name;

    (void)state;
    assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &fn, 13000, 0, &status), 0);
    assert_true(fn == (void *)(uintptr_t)cuMemAlloc_v2);
    assert_int_equal(cuGetProcAddress_v2("cuNothing", &fn, 13000, 0, &status), TD_CUDA_NOT_FOUND);
    assert_int_equal(cuGetErrorName(700, &name), 0);
    assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(cuGetErrorName(12345, &name), TD_CUDA_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_copy_without_an_event_sees_old_data), cmocka_unit_test(test_the_legacy_stream_waits_for_blocking_ones),
        cmocka_unit_test(test_functions_parameters_and_packed_blocks), cmocka_unit_test(test_faults), cmocka_unit_test(test_a_kernel_that_leaves_its_mapping),
        cmocka_unit_test(test_a_capture_becomes_a_graph), cmocka_unit_test(test_the_thread_works_by_itself), cmocka_unit_test(test_the_hook_sees_launches),
        cmocka_unit_test(test_functions_by_name),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
