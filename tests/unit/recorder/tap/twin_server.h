/* twin_server.h - a server whose steps are CUDA graphs, captured through libcudart, for tests of twins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is some layers that cuBLAS multiplies, each into the input of the one before the last, so that nothing of a step is left when it is over: only copies at the
 * right places hold what each layer read and wrote. The tap reads TD_TAP_TWINS and TD_TAP_TWINS_MIB from the environment that it was loaded in, so the
 * program starts itself again with them (twins_on). */
#ifndef TD_TESTS_UNIT_RECORDER_TAP_TWIN_SERVER_H
#define TD_TESTS_UNIT_RECORDER_TAP_TWIN_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"

#ifndef TWIN_LAYERS
#define TWIN_LAYERS 3
#define TWIN_ROWS 16
#endif

enum { F16 = 2, MOST_ROWS = TWIN_ROWS, BYTES = MOST_ROWS * K * 2 };

int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const uint16_t *a, int a_type, int lda, const uint16_t *b, int b_type, int ldb,
                 const float *beta, uint16_t *c, int c_type, int ldc, int compute, int algorithm);
int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cudaGraphDestroy(void *graph);
int cudaGraphExecDestroy(void *exec);
int cudaGraphExecUpdate(void *exec, void *graph, void *info, void *more);
int cudaGraphExecKernelNodeSetParams(void *exec, void *node, const void *params);
int cudaGraphLaunch(void *exec, void *stream);

static struct { void *kernel, *stream; int mode; } handle;
static void **launched;                /* the executable graph that the fake libcudart launched last */
static unsigned *pause_us;             /* before each launch */
static int *refuse, *refuse_update;    /* how many launches, and updates, it refuses */
static _Atomic unsigned *together;     /* launches of one graph by two threads at the same time */
static int (*peek_last_error)(void), (*get_last_error)(void);
static void *capture_stream;
static uint64_t w[TWIN_LAYERS], buffer[2];

static inline int setup(void **state)
{
    void *cudart;
    int l, i;

    if (gpu_setup(state) || !(cudart = gpu_link(gpu_folder, "lib_fake_cudart.so", "libcudart.so.13")))
        return -1;
    launched = dlsym(cudart, "fake_cudart_launched");
    pause_us = dlsym(cudart, "fake_cudart_pause_us");
    together = dlsym(cudart, "fake_cudart_together");
    *(void **)&peek_last_error = dlsym(cudart, "cudaPeekAtLastError");
    *(void **)&get_last_error = dlsym(cudart, "cudaGetLastError");
    refuse = dlsym(cudart, "fake_cudart_refuse"), refuse_update = dlsym(cudart, "fake_cudart_refuse_update");
    for (l = 0; l < TWIN_LAYERS; l++) {
        w[l] = gpu_memory(K * K * 2);
        for (i = 0; i < K * K; i++)
            ((uint16_t *)w[l])[i] = (uint16_t)(0x1c00 + (i * 7 + l * 331) % 1000);
    }
    buffer[0] = gpu_memory(BYTES), buffer[1] = gpu_memory(BYTES);
    handle.kernel = gpu_kernel(FAKE_LINEAR);
    return cu.stream_create(&capture_stream, TD_CUDA_STREAM_NON_BLOCKING) || !launched || !together || !refuse || !refuse_update || !pause_us;
}

static inline void layer_on(void *stream, int l, int m)
{
    const float one = 1, nothing = 0;

    handle.stream = stream;
    assert_int_equal(cublasGemmEx(&handle, 1, 0, K, m, K, &one, (uint16_t *)w[l], F16, K, (uint16_t *)buffer[l % 2], F16, K, &nothing, (uint16_t *)buffer[(l + 1) % 2], F16, K, 68,
                                  -1), 0);
}

static inline void layers(void *stream, int m)
{
    int l;

    for (l = 0; l < TWIN_LAYERS; l++)
        layer_on(stream, l, m);
}

static inline void *capture_graph(int m)
{
    void *graph;

    assert_int_equal(cudaStreamBeginCapture(capture_stream, 0), 0);
    layers(capture_stream, m);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    return graph;
}

/* As torch does: the graph is destroyed as soon as it is instantiated. */
static inline void *instantiated(void *graph)
{
    void *exec;

    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    return exec;
}

static inline void begin_capture(void)
{
    assert_int_equal(cudaStreamBeginCapture(capture_stream, 0), 0);
}

static inline void *end_capture(void)
{
    void *graph;

    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    return instantiated(graph);
}

static inline void *capture(int m)
{
    return instantiated(capture_graph(m));
}

static inline void fill(unsigned seed)
{
    int i;

    for (i = 0; i < BYTES / 2; i++)
        ((uint16_t *)buffer[0])[i] = (uint16_t)(0x3000 + (seed * 31 + (unsigned)i * 7) % 2048), ((uint16_t *)buffer[1])[i] = 0;
}

/* A step; true: a graph other than exec ran. */
static inline bool step(void *exec, unsigned seed)
{
    fill(seed);
    assert_int_equal(cudaGraphLaunch(exec, gpu_stream), 0);
    cu.stream_synchronize(gpu_stream);
    return *launched != exec;
}

static inline void arm(struct bench *b, uint32_t mode)
{
    bench_open(b, mode);
    assert_null(tap_front_cuda.start());
}

/* An arm in which exec has its twin from the second step on, which is of seed 2. */
static inline void arm_with_twin(struct bench *b, void *exec)
{
    arm(b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
}

static inline void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    bench_read(b);
    check_balance(b);
}

/* What `n` layers from `first` on read and wrote in a step of that seed: the layers before them, computed unseen. */
static inline void check_some(const struct bench *b, size_t from, int first, int n, int m, unsigned seed)
{
    int l;

    fill(seed);
    for (l = 0; l < first + n; l++) {
        const struct td_op *op = &b->ops[from + (size_t)(l - first)];

        if (l >= first)
            check_blob(b, td_op_rec_in(op, "a"), (void *)buffer[l % 2], (size_t)(m * K) * 2);
        layer_on(gpu_stream, l, m);
        cu.stream_synchronize(gpu_stream);
        if (l < first)
            continue;
        check_blob(b, &op->out, (void *)buffer[(l + 1) % 2], (size_t)(m * K) * 2);
        check_blob(b, td_op_rec_in(op, "w"), (void *)w[l], K * K * 2);
        assert_string_equal(op->impl.symbol, "cublasGemmEx");
        assert_int_equal(td_json_get_i64(op->attrs, "m", -1), m);
    }
}

static inline void check_ops(const struct bench *b, size_t from, int m, unsigned seed)
{
    check_some(b, from, 0, TWIN_LAYERS, m, seed);
}

/* First in main(), in place of bench_without_socket(): have the tap find TD_TAP_TWINS, and the bound where mib is not NULL. */
static inline void twins_on(char **argv, const char *mib)
{
    if (getenv("TD_TAP_TWINS"))
        return;
    setenv("TD_TAP_TWINS", "1", 1);
    setenv("TD_TAP_DIR", "/dev/null", 1); /* see bench_without_socket(): the tap's own thread would make twins beside the test's */
    if (mib)
        setenv("TD_TAP_TWINS_MIB", mib, 1);
    execv("/proc/self/exe", argv);
    perror(argv[0]);
    exit(1);
}

#endif
