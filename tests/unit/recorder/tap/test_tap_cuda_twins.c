/* test_tap_cuda_twins.c - twins of CUDA graphs: captured through libcudart in view of the sleeping tap, launched, recorded into a fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The server is three layers that cuBLAS multiplies, each into the input of the one before the last, so that nothing of a step is left when it is over: only
 * copies at the right places hold what each layer read and wrote. The tap reads TD_TAP_TWINS from the environment that its process started with, so the program
 * starts itself again with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"

enum { F16 = 2, MOST_ROWS = 16, BYTES = MOST_ROWS * K * 2 };

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
static int *refuse;                    /* how many launches it refuses */
static void *capture_stream;
static uint64_t w[LAYERS], buffer[2];

/* ---- the server ---------------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
    void *cudart;
    int l, i;

    if (gpu_setup(state) || !(cudart = gpu_link(gpu_folder, "lib_fake_cudart.so", "libcudart.so.13")))
        return -1;
    launched = dlsym(cudart, "fake_cudart_launched");
    refuse = dlsym(cudart, "fake_cudart_refuse");
    for (l = 0; l < LAYERS; l++) {
        w[l] = gpu_memory(K * K * 2);
        for (i = 0; i < K * K; i++)
            ((uint16_t *)w[l])[i] = (uint16_t)(0x1c00 + (i * 7 + l * 331) % 1000);
    }
    buffer[0] = gpu_memory(BYTES), buffer[1] = gpu_memory(BYTES);
    handle.kernel = gpu_kernel(FAKE_LINEAR);
    return cu.stream_create(&capture_stream, TD_CUDA_STREAM_NON_BLOCKING) || !launched || !refuse;
}

static void layer_on(void *stream, int l, int m)
{
    const float one = 1, nothing = 0;

    handle.stream = stream;
    assert_int_equal(cublasGemmEx(&handle, 1, 0, K, m, K, &one, (uint16_t *)w[l], F16, K, (uint16_t *)buffer[l % 2], F16, K, &nothing, (uint16_t *)buffer[(l + 1) % 2], F16, K, 68,
                                  -1), 0);
}

static void layers(void *stream, int m)
{
    int l;

    for (l = 0; l < LAYERS; l++)
        layer_on(stream, l, m);
}

static void *capture_graph(int m)
{
    void *graph;

    assert_int_equal(cudaStreamBeginCapture(capture_stream, 0), 0);
    layers(capture_stream, m);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    return graph;
}

/* As torch does: the graph is destroyed as soon as it is instantiated. */
static void *capture(int m)
{
    void *graph = capture_graph(m), *exec;

    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    return exec;
}

static void fill(unsigned seed)
{
    int i;

    for (i = 0; i < BYTES / 2; i++)
        ((uint16_t *)buffer[0])[i] = (uint16_t)(0x3000 + (seed * 31 + (unsigned)i * 7) % 2048), ((uint16_t *)buffer[1])[i] = 0;
}

/* A step; true: a graph other than exec ran. */
static bool step(void *exec, unsigned seed)
{
    fill(seed);
    assert_int_equal(cudaGraphLaunch(exec, gpu_stream), 0);
    cu.stream_synchronize(gpu_stream);
    return *launched != exec;
}

static void arm(struct bench *b, uint32_t mode)
{
    bench_open(b, mode);
    assert_null(tap_front_cuda.start());
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    bench_read(b);
    check_balance(b);
}

/* What layer l read and wrote in a step of that seed: the layers before it, computed unseen. */
static void check_ops(const struct bench *b, size_t from, int m, unsigned seed)
{
    int l;

    fill(seed);
    for (l = 0; l < LAYERS; l++) {
        const struct td_op *op = &b->ops[from + (size_t)l];

        check_blob(b, td_op_rec_in(op, "a"), (void *)buffer[l % 2], (size_t)(m * K) * 2);
        layer_on(gpu_stream, l, m);
        cu.stream_synchronize(gpu_stream);
        check_blob(b, &op->out, (void *)buffer[(l + 1) % 2], (size_t)(m * K) * 2);
        check_blob(b, td_op_rec_in(op, "w"), (void *)w[l], K * K * 2);
        assert_string_equal(op->impl.symbol, "cublasGemmEx");
        assert_int_equal(td_json_get_i64(op->attrs, "m", -1), m);
    }
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

/* Asleep, and in a step before there is a twin, the server's own graph runs; then the twin, which is gone when the tap is disarmed. */
static void a_step_runs_from_the_twin(void **state)
{
    void *exec = capture(4);
    uint64_t destroyed, gathers;
    struct bench b;

    (void)state;
    gathers = say->calls("td_gather");
    assert_false(step(exec, 1));       /* asleep */
    assert_int_equal(say->calls("td_gather"), gathers);
    arm(&b, TAP_MODE_ALL);
    assert_false(step(exec, 2));       /* there is no twin yet */
    tap_front_cuda.tick();
    assert_true(step(exec, 3));
    assert_true(step(exec, 4));
    destroyed = say->calls("cuGraphExecDestroy");
    disarm(&b);
    assert_int_equal(say->calls("cuGraphExecDestroy") - destroyed, 1);
    assert_false(step(exec, 5));
    assert_int_equal(b.n_steps, 2);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "steps.dropped.graph"), 1);
    check_ops(&b, b.n_ops - LAYERS, 4, 4);
    assert_int_equal(ledger(&b, "launches.graphs"), 3);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 3);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), LAYERS);
    bench_close(&b);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

/* A twin dies with its original, and the kept clone too. */
static void a_twin_dies_with_its_original(void **state)
{
    void *exec = capture(2);
    uint64_t execs, graphs;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
    execs = say->calls("cuGraphExecDestroy"), graphs = say->calls("cuGraphDestroy");
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
    assert_int_equal(say->calls("cuGraphExecDestroy") - execs, 2);
    assert_int_equal(say->calls("cuGraphDestroy") - graphs, 1);
    disarm(&b);
    bench_close(&b);
}

/* As vLLM's piecewise graphs: one a layer. Of the steps in a window of the sample all pieces run from twins, of the others none. */
static void pieces_of_a_step_go_together(void **state)
{
    void *exec[LAYERS], *graph;
    int l, p, twins, steps = 0;
    struct bench b;

    (void)state;
    for (l = 0; l < LAYERS; l++) {
        assert_int_equal(cudaStreamBeginCapture(capture_stream, 0), 0);
        layer_on(capture_stream, l, 3);
        assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
        assert_int_equal(cudaGraphInstantiateWithFlags(&exec[l], graph, 1), 0);
        assert_int_equal(cudaGraphDestroy(graph), 0);
    }
    arm(&b, TAP_MODE_SAMPLE);
    for (p = 0; p < 21; p++) {
        for (l = 0, twins = 0; l < LAYERS; l++)
            twins += step(exec[l], (unsigned)p);
        assert_true(twins == 0 || twins == LAYERS);
        steps += twins == LAYERS;
        tap_front_cuda.tick();
    }
    disarm(&b);
    assert_in_range(steps, 1, 7);
    assert_int_equal(b.n_ops, steps * LAYERS);
    assert_int_equal(ledger(&b, "launches.graphs"), 21 * LAYERS);
    bench_close(&b);
    for (l = 0; l < LAYERS; l++)
        cudaGraphExecDestroy(exec[l]);
}

/* A server that changes its graph by hand gets no twin, and none that was made before runs. */
static void a_graph_changed_by_hand_has_no_twin(void **state)
{
    void *exec = capture(4);
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, exec, exec), 0);
    assert_false(step(exec, 3));
    tap_front_cuda.tick();
    assert_false(step(exec, 4));
    disarm(&b);
    assert_int_equal(ledger(&b, "launches.graphs"), 4);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 2);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* A twin that the driver refuses: the server's own graph runs, and the server is told nothing. */
static void a_refused_twin_is_replaced(void **state)
{
    void *exec = capture(4);
    struct bench b;
    size_t i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    for (i = 2; i < 5; i++)
        assert_true(step(exec, (unsigned)i));
    *refuse = 1;
    assert_false(step(exec, 5));
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 2 * LAYERS);
    check_ops(&b, b.n_ops - LAYERS, 4, 4);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* An executable graph that takes another graph's nodes has that one's twin from then on. */
static void an_update_is_followed(void **state)
{
    void *exec = capture(4), *other = capture_graph(6), *second;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
    assert_int_equal(cudaGraphInstantiateWithFlags(&second, other, 1), 0);
    assert_int_equal(cudaGraphExecUpdate(exec, other, NULL, NULL), 0);
    assert_int_equal(cudaGraphDestroy(other), 0);
    assert_false(step(exec, 3));
    tap_front_cuda.tick();
    assert_true(step(exec, 4));
    disarm(&b);
    check_ops(&b, b.n_ops - LAYERS, 6, 4);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cudaGraphExecDestroy(second);
}

/* Graphs on two streams may run beside each other, and copy to the same memory. */
static void two_streams_are_refused(void **state)
{
    void *exec = capture(4), *stream;
    struct bench b;

    (void)state;
    assert_int_equal(cu.stream_create(&stream, TD_CUDA_STREAM_NON_BLOCKING), 0);
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    step(exec, 2);
    assert_int_equal(cudaGraphLaunch(exec, stream), 0);
    cu.stream_synchronize(stream);
    assert_ptr_equal(*launched, exec); /* nor do twins run any more: they could run beside each other */
    assert_false(step(exec, 3));
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_true(ledger(&b, "ops.dropped.threads") >= 2 * LAYERS);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cu.stream_destroy(stream);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs_from_the_twin),
        cmocka_unit_test(a_twin_dies_with_its_original),
        cmocka_unit_test(pieces_of_a_step_go_together),
        cmocka_unit_test(a_graph_changed_by_hand_has_no_twin),
        cmocka_unit_test(a_refused_twin_is_replaced),
        cmocka_unit_test(an_update_is_followed),
        cmocka_unit_test(two_streams_are_refused),
    };

    (void)argc;
    if (!getenv("TD_TAP_TWINS")) {
        setenv("TD_TAP_TWINS", "1", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
