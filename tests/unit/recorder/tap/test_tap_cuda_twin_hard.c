/* test_tap_cuda_twin_hard.c - what a server may do with its CUDA graphs, and where a twin would harm it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "twin_server.h"

#include <errno.h>
#include <pthread.h>

#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_gate.h"

enum { OUT_OF_MEMORY = 2 };

int cudaStreamBeginCaptureToGraph(void *stream, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, int mode);
int cudaGraphAddDependencies_v2(void *graph, void *from);
int cudaGraphAddEventRecordNode(void *node, void *graph);
int cudaGraphAddNode_v2(void *node, void *graph);
int cudaGraphChildGraphNodeGetGraph(void *node, void *graph);
int cudaGraphHostNodeSetParams(void *node, void *params);
int cudaGraphKernelNodeSetAttribute(void *node, void *attribute);

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void *launch_often(void *exec)
{
    int i;

    cu.ctx_set_current(gpu_context);
    for (i = 0; i < 40; i++)
        if (cudaGraphLaunch(exec, gpu_stream))
            return exec;
    return NULL;
}

/* Two executable graphs of one graph may be launched by two threads at the same time; their one twin may not. */
static void a_twin_is_launched_by_one_thread(void **state)
{
    void *graph = capture_graph(4), *exec[2], *failed;
    pthread_t other;
    struct bench b;

    (void)state;
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec[0], graph, 1), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec[1], graph, 1), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    arm(&b, TAP_MODE_ALL);
    step(exec[0], 1);
    tap_front_cuda.tick();
    assert_true(step(exec[0], 2));
    assert_true(step(exec[1], 3));
    *pause_us = 2000;
    assert_int_equal(pthread_create(&other, NULL, launch_often, exec[0]), 0);
    assert_null(launch_often(exec[1]));
    pthread_join(other, &failed);
    *pause_us = 0;
    assert_null(failed);
    cu.stream_synchronize(gpu_stream);
    assert_int_equal(atomic_load(together), 0);
    disarm(&b);
    bench_close(&b);
    cudaGraphExecDestroy(exec[0]);
    cudaGraphExecDestroy(exec[1]);
}

static void *other_exec;

static void *launch_other(void *result)
{
    cu.ctx_set_current(gpu_context);
    *(int *)result = cudaGraphLaunch(other_exec, gpu_stream);
    return NULL;
}

static void another_thread_launches(void)
{
    pthread_t other;
    int rc = -1;

    assert_int_equal(pthread_create(&other, NULL, launch_other, &rc), 0);
    pthread_join(other, NULL);
    assert_int_equal(rc, 0);
}

/* A thread launches a graph; before it is back another one launches another graph on the same stream, whose twin copies to the same memory. */
static void what_a_twin_copied_stays(void **state)
{
    void *exec = capture(4);
    struct bench b;

    (void)state;
    other_exec = capture(4);
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    step(other_exec, 1);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
    assert_true(step(other_exec, 3));
    say->behind_graph(another_thread_launches);
    step(exec, 4);
    assert_true(step(other_exec, 5));  /* as ever after that */
    disarm(&b);
    assert_int_equal(b.n_ops, 4 * TWIN_LAYERS);
    check_ops(&b, 2 * TWIN_LAYERS, 4, 4);
    check_ops(&b, 3 * TWIN_LAYERS, 4, 5);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 3 * TWIN_LAYERS); /* of the first launches, and of the other thread's */
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cudaGraphExecDestroy(other_exec);
}

static int (*real_context_id)(void *context, unsigned long long *id);
static int (*real_copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);

static int copy_with_errno(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    errno = EAGAIN;
    return real_copy(to, from, bytes, stream);
}

static int context_with_errno(void *context, unsigned long long *id)
{
    errno = EAGAIN;
    return real_context_id(context, id);
}

/* The driver may set errno where the tap calls it, and the server does not. */
static void errno_is_the_servers(void **state)
{
    void *exec = capture(4);
    struct bench b;

    (void)state;
    arm_with_twin(&b, exec);
    real_copy = tap_driver.copy_on_device, real_context_id = tap_driver.context_id;
    tap_driver.copy_on_device = copy_with_errno, tap_driver.context_id = context_with_errno;
    errno = ERANGE;
    assert_int_equal(cudaGraphLaunch(exec, gpu_stream), 0);
    assert_int_equal(errno, ERANGE);
    tap_driver.copy_on_device = real_copy, tap_driver.context_id = real_context_id;
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * TWIN_LAYERS);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* W was written as floats, and the next that comes is a graph: its product was not read. */
static void a_w_before_a_graph_is_counted(void **state)
{
    static const struct td_gpu_adapter adapter = {.family = "maker", .kind = "gptq_gemm", .layout = "awq"};
    static struct tap_gpu_kernel kernel = {.adapter = &adapter};
    const struct tap_gpu_launch l = {.stream = gpu_stream, .context = gpu_context};
    struct td_gpu_work made = {.adapter = &adapter, .n = K, .k = K, .n_op = 1, .op = {{.dtype = "F16", .use = TD_GPU_OUT, .address = buffer[0]}}};
    void *exec = capture(4);
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_gpu_gate_made_w(&l, &kernel, &made);
    step(exec, 2);
    step(exec, 3);
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.unreadable"), 1);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

static int refuse_clone(void **clone, void *graph)
{
    (void)clone, (void)graph;
    return OUT_OF_MEMORY;
}

/* A graph that has no twin is launched; later more is captured into it. */
static void what_is_captured_later_is_counted(void **state)
{
    int (*clone)(void **clone, void *graph) = tap_driver.graph_clone;
    void *graph = capture_graph(4), *exec;
    struct bench b;

    (void)state;
    tap_driver.graph_clone = refuse_clone;
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    cudaGraphExecDestroy(exec);
    assert_int_equal(cudaStreamBeginCaptureToGraph(capture_stream, graph, NULL, NULL, 0, 0), 0);
    layer_on(capture_stream, 1, 4);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    step(exec, 2);
    disarm(&b);
    tap_driver.graph_clone = clone;
    assert_int_equal(ledger(&b, "ops.seen"), 2 * TWIN_LAYERS + 1);
    bench_close(&b);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    cudaGraphExecDestroy(exec);
}

/* A capture that was begun past libcudart: a twin within it would write to memory of the tap's for as long as the server keeps its graph. */
static void a_twin_is_no_part_of_a_graph(void **state)
{
    void *exec = capture(4), *outer;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    assert_int_equal(cudaGraphLaunch(exec, capture_stream), 0);
    tap_front_cuda.tick();
    assert_int_equal(cudaGraphLaunch(exec, capture_stream), 0);
    assert_ptr_not_equal(*launched, exec);
    cu.stream_synchronize(capture_stream);
    assert_int_equal(cu.stream_begin_capture(capture_stream, 0), 0);
    assert_int_equal(cudaGraphLaunch(exec, capture_stream), 0);
    assert_ptr_equal(*launched, exec);
    assert_int_equal(cu.stream_end_capture(capture_stream, &outer), 0);
    disarm(&b);
    bench_close(&b);
    assert_int_equal(cudaGraphDestroy(outer), 0);
    cudaGraphExecDestroy(exec);
}

/* The tap copies in one context. A graph of another device's has no twin, whichever context is current when it is launched: its copies would fault, and so the
 * server's own work. */
static void another_device_has_no_twin(void **state)
{
    void *second, *exec, *mine = capture(4);
    struct bench b;
    int i;

    (void)state;
    assert_int_equal(cu.primary_retain(&second, 1), 0);
    assert_int_equal(cu.ctx_set_current(second), 0);
    exec = capture(4);
    assert_int_equal(cu.ctx_set_current(gpu_context), 0);
    arm(&b, TAP_MODE_ALL);
    step(mine, 1);
    tap_front_cuda.tick();
    assert_true(step(mine, 2));
    for (i = 0; i < 4; i++) {
        assert_int_equal(cu.ctx_set_current(i < 2 ? second : gpu_context), 0);
        assert_false(step(exec, 3));
        assert_int_equal(cu.ctx_set_current(gpu_context), 0);
        tap_front_cuda.tick();
    }
    assert_true(step(mine, 4));
    disarm(&b);
    assert_int_equal(ledger(&b, "twins.made"), 1);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 4, 4);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cudaGraphExecDestroy(mine);
}

/* A graph that is changed, and instantiated again. The twin of what it was lacks the change. */
static void launch_changed(void *graph, bool has_twin)
{
    uint16_t without[BYTES / 2];
    unsigned i, twins = 0;
    void *exec;
    struct bench b;

    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    assert_false(step(exec, 1));
    memcpy(without, (void *)buffer[0], BYTES);
    arm(&b, TAP_MODE_ALL);
    tap_front_cuda.tick();
    for (i = 0; i < 4; i++) {
        twins += step(exec, 1);
        assert_memory_equal(without, (void *)buffer[0], BYTES);
    }
    disarm(&b);
    assert_int_equal(twins > 0, has_twin);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* More is captured into a graph that was instantiated. */
static void a_graph_that_grew_is_another_one(void **state)
{
    void *graph = capture_graph(4), *before;

    (void)state;
    assert_int_equal(cudaGraphInstantiateWithFlags(&before, graph, 1), 0);
    assert_int_equal(cudaStreamBeginCaptureToGraph(capture_stream, graph, NULL, NULL, 0, 0), 0);
    layer_on(capture_stream, 1, 4);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    launch_changed(graph, true);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    cudaGraphExecDestroy(before);
}

/* Every function by which a graph is changed. */
static void a_graph_changed_in_any_way_has_no_twin(void **state)
{
    const struct { int (*fn)(void *, void *); bool names_first; } change[] = {
        {cudaGraphAddDependencies_v2, true}, {cudaGraphAddEventRecordNode, false},      {cudaGraphAddNode_v2, false},
        {cudaGraphChildGraphNodeGetGraph, true}, {cudaGraphHostNodeSetParams, true}, {cudaGraphKernelNodeSetAttribute, true},
    };
    void *graph, *before;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof change / sizeof *change; i++) {
        graph = capture_graph(4);
        assert_int_equal(cudaGraphInstantiateWithFlags(&before, graph, 1), 0);
        assert_int_equal(change[i].names_first ? change[i].fn(graph, NULL) : change[i].fn(NULL, graph), 0);
        launch_changed(graph, false);
        assert_int_equal(cudaGraphDestroy(graph), 0);
        cudaGraphExecDestroy(before);
    }
}

/* A node that is added while the graph is captured, as NCCL does, changes nothing that was made of it. */
static void a_node_may_be_added_to_a_capture(void **state)
{
    void *graph, *exec;
    int status;
    struct bench b;
    uint64_t id;

    (void)state;
    begin_capture();
    layer_on(capture_stream, 0, 4);
    assert_int_equal(cu.capture_info(capture_stream, &status, &id, &graph, NULL, NULL, NULL), 0);
    assert_int_equal(cudaGraphAddEventRecordNode(NULL, graph), 0);
    layer_on(capture_stream, 1, 4);
    layer_on(capture_stream, 2, 4);
    exec = end_capture();
    step(exec, 1);
    arm(&b, TAP_MODE_ALL);
    assert_true(step(exec, 2));
    disarm(&b);
    assert_int_equal(b.n_ops, TWIN_LAYERS);
    check_ops(&b, 0, 4, 2);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* The tap is armed in the middle of a step: what it takes for the first layer lies in the middle of the graph. Then the twin runs all the same, and
 * each of its launches is the rest of a step and the beginning of the next one. */
static void a_step_may_begin_within_a_graph(void **state)
{
    void *exec = capture(4);
    struct bench b;
    unsigned i;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    tap_plan.kinds = TAP_KINDS_ALL;    /* the step finder begins anew, and again in the next arm */
    assert_null(tap_front_cuda.start());
    tap_plan.kinds = TAP_KINDS_GEMM;
    layer_on(gpu_stream, 1, 4);
    cu.stream_synchronize(gpu_stream);
    step(exec, 1);
    tap_front_cuda.tick();
    step(exec, 2);                     /* it begins while the server's own graph runs */
    for (i = 3; i < 7; i++)
        assert_true(step(exec, i));
    disarm(&b);
    check_ops(&b, b.n_ops - 2 * TWIN_LAYERS, 4, 5);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 4, 6);
    assert_true(b.n_steps >= 5);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* A server ends a capture on a stream that has none, while it captures on another one: that one is followed as before. */
static void a_capture_that_is_none_ends_none(void **state)
{
    void *none, *exec;
    struct bench b;

    (void)state;
    begin_capture();
    layer_on(capture_stream, 0, 4);
    assert_int_not_equal(cudaStreamEndCapture(gpu_stream, &none), 0);
    layer_on(capture_stream, 1, 4);
    layer_on(capture_stream, 2, 4);
    exec = end_capture();
    arm_with_twin(&b, exec);
    disarm(&b);
    assert_int_equal(b.n_ops, TWIN_LAYERS);
    check_ops(&b, 0, 4, 2);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* One graph, instantiated twice in different ways: the twin stands for the first. Launches of the other are unread. */
static void a_twin_is_instantiated_as_its_original(void **state)
{
    void *graph = capture_graph(4), *other = capture_graph(2), *exec, *differs, *third;
    struct bench b;

    (void)state;
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&differs, graph, 8), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&third, other, 1), 0);
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    step(differs, 1);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
    assert_false(step(differs, 3));
    assert_int_equal(cudaGraphExecUpdate(differs, other, NULL, NULL), 0); /* whose twin is another one, too */
    tap_front_cuda.tick();
    assert_false(step(differs, 4));
    disarm(&b);
    assert_int_equal(b.n_ops, TWIN_LAYERS);
    check_ops(&b, 0, 4, 2);
    assert_int_equal(ledger(&b, "launches.graphs"), 5);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 2);
    bench_close(&b);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    assert_int_equal(cudaGraphDestroy(other), 0);
    cudaGraphExecDestroy(exec);
    cudaGraphExecDestroy(differs);
    cudaGraphExecDestroy(third);
}

static int (*real_alloc)(uint64_t *at, size_t bytes);
static unsigned refused;

static int refuse_alloc(uint64_t *at, size_t bytes)
{
    (void)at, (void)bytes;
    refused++;
    return OUT_OF_MEMORY;
}

/* The server has all of the GPU: it is asked for memory once a second, not in every tick. */
static void a_full_gpu_is_seldom_asked(void **state)
{
    void *exec = capture(4);
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    real_alloc = tap_driver.mem_alloc;
    tap_driver.mem_alloc = refuse_alloc;
    for (i = 0; i < 20; i++) {
        assert_false(step(exec, 1));
        tap_front_cuda.tick();
    }
    tap_driver.mem_alloc = real_alloc;
    assert_in_range(refused, 12, 24);  /* from 128 MiB to 64 KiB, and once more if this took a second */
    usleep(1100000);
    tap_front_cuda.tick();
    assert_true(step(exec, 2));
    disarm(&b);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_twin_is_launched_by_one_thread),
        cmocka_unit_test(what_a_twin_copied_stays),
        cmocka_unit_test(errno_is_the_servers),
        cmocka_unit_test(a_w_before_a_graph_is_counted),
        cmocka_unit_test(what_is_captured_later_is_counted),
        cmocka_unit_test(a_twin_is_no_part_of_a_graph),
        cmocka_unit_test(another_device_has_no_twin),
        cmocka_unit_test(a_node_may_be_added_to_a_capture),
        cmocka_unit_test(a_full_gpu_is_seldom_asked),
        cmocka_unit_test(a_step_may_begin_within_a_graph),
        cmocka_unit_test(a_capture_that_is_none_ends_none),
        cmocka_unit_test(a_twin_is_instantiated_as_its_original),
        cmocka_unit_test(a_graph_that_grew_is_another_one),
        cmocka_unit_test(a_graph_changed_in_any_way_has_no_twin),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
