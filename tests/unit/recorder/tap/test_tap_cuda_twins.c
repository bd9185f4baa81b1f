/* test_tap_cuda_twins.c - twins of CUDA graphs: captured through libcudart in view of the sleeping tap, launched, recorded into a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_spent.h"
#include "twin_server.h"

/* ---- tests --------------------------------------------------------------------------------------------------------- */

/* In a step before there is a twin the server's own graph runs; then the twin, which is gone when the tap is disarmed. */
static void a_step_runs_from_the_twin(void **state)
{
    void *exec = capture(4);
    uint64_t destroyed;
    struct bench b;

    (void)state;
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
    assert_int_equal(b.n_ops, 2 * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "steps.dropped.graph"), 1);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 4, 4);
    assert_int_equal(ledger(&b, "launches.graphs"), 3);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 3);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), TWIN_LAYERS);
    bench_close(&b);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

/* A graph that ran while the tap slept, from the server's own, has its twin when an arm begins; one that is gone by then has none. */
static void an_arm_begins_with_twins_of_what_ran(void **state)
{
    void *exec = capture(4), *gone = capture(2);
    uint64_t gathers = say->calls("td_gather");
    const uint64_t spent = tap_spent_us();
    struct bench b;

    (void)state;
    assert_true(spent > 0);            /* for the captures */
    assert_false(step(exec, 1));
    assert_false(step(gone, 1));
    assert_int_equal(tap_spent_us(), spent);
    assert_int_equal(say->calls("td_gather"), gathers);
    assert_int_equal(cudaGraphExecDestroy(gone), 0);
    arm(&b, TAP_MODE_ALL);
    assert_true(step(exec, 2));
    assert_true(step(exec, 3));
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * TWIN_LAYERS);
    check_ops(&b, TWIN_LAYERS, 4, 3);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 0);
    assert_int_equal(ledger(&b, "twins.made"), 1);
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
    arm_with_twin(&b, exec);
    execs = say->calls("cuGraphExecDestroy"), graphs = say->calls("cuGraphDestroy");
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
    assert_int_equal(say->calls("cuGraphExecDestroy") - execs, 2);
    assert_int_equal(say->calls("cuGraphDestroy") - graphs, 1);
    disarm(&b);
    bench_close(&b);
}

/* As vLLM's piecewise graphs: one a layer. Of the steps in a window of the sample all pieces run from twins, of the others none; also while some pieces have their
 * twins already. */
static void pieces_of_a_step_go_together(void **state)
{
    void *exec[TWIN_LAYERS];
    int l, p, twins, steps = 0;
    struct bench b;

    (void)state;
    for (l = 0; l < TWIN_LAYERS; l++) {
        begin_capture();
        layer_on(capture_stream, l, 3);
        exec[l] = end_capture();
    }
    arm(&b, TAP_MODE_SAMPLE);
    for (p = 0; p < 21; p++) {
        for (l = 0, twins = 0; l < TWIN_LAYERS; l++) {
            twins += step(exec[l], (unsigned)p);
            if (!p && !l)
                tap_front_cuda.tick();
        }
        assert_true(twins == 0 || twins == TWIN_LAYERS);
        steps += twins == TWIN_LAYERS;
        if (p)
            tap_front_cuda.tick();
    }
    disarm(&b);
    assert_in_range(steps, 1, 7);
    assert_int_equal(b.n_ops, steps * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "launches.graphs"), 21 * TWIN_LAYERS);
    bench_close(&b);
    for (l = 0; l < TWIN_LAYERS; l++)
        cudaGraphExecDestroy(exec[l]);
}

/* A server that changes its graph by hand gets no twin, and none that was made before runs. */
static void a_graph_changed_by_hand_has_no_twin(void **state)
{
    void *exec = capture(4);
    struct bench b;

    (void)state;
    arm_with_twin(&b, exec);
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

/* A graph that is instantiated for launches by the device, and one that was updated from nobody knows what: neither can have a twin, and their launches are named. */
static void a_graph_without_a_twin_is_named(void **state)
{
    void *graph = capture_graph(4), *exec;
    struct bench b;

    (void)state;
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, TD_CUDA_GRAPH_DEVICE_LAUNCH), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    arm(&b, TAP_MODE_ALL);
    assert_false(step(exec, 1));
    tap_front_cuda.tick();
    assert_false(step(exec, 2));
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, exec, exec), 0);
    graph = capture_graph(5);
    assert_int_equal(cudaGraphExecUpdate(exec, graph, NULL, NULL), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    assert_false(step(exec, 3));
    tap_front_cuda.tick();
    assert_false(step(exec, 4));
    disarm(&b);
    assert_int_equal(ledger(&b, "launches.graphs_no_twin"), 4);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 4);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 4 * TWIN_LAYERS);
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
    assert_int_equal(peek_last_error(), 0); /* by which torch checks its launches */
    assert_false(step(exec, 6));       /* it is not tried again at once */
    *refuse = 1;                       /* the server's own: that it is told */
    assert_int_not_equal(cudaGraphLaunch(exec, gpu_stream), 0);
    assert_int_not_equal(peek_last_error(), 0);
    *refuse = 0;
    usleep(1100000);
    assert_false(step(exec, 7));       /* its error stays, whatever becomes of a twin */
    assert_int_not_equal(get_last_error(), 0);
    assert_true(step(exec, 8));
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 4 * TWIN_LAYERS);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 4, 8);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* An executable graph that takes another graph's nodes has that one's twin from then on. */
static void an_update_is_followed(void **state)
{
    void *exec = capture(4), *other = capture_graph(6), *second;
    struct bench b;

    (void)state;
    arm_with_twin(&b, exec);
    assert_int_equal(cudaGraphInstantiateWithFlags(&second, other, 1), 0);
    assert_int_equal(cudaGraphExecUpdate(exec, other, NULL, NULL), 0);
    assert_int_equal(cudaGraphDestroy(other), 0);
    assert_false(step(exec, 3));
    tap_front_cuda.tick();
    assert_true(step(exec, 4));
    disarm(&b);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 6, 4);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cudaGraphExecDestroy(second);
}

/* The same from a graph that was never instantiated, and is gone at once. An update that fails leaves no twin, for what the server's graph is then is not known. */
static void an_update_from_a_mere_graph_is_followed(void **state)
{
    void *exec = capture(4), *other = capture_graph(6);
    struct bench b;

    (void)state;
    arm_with_twin(&b, exec);
    assert_int_equal(cudaGraphExecUpdate(exec, other, NULL, NULL), 0);
    assert_int_equal(cudaGraphDestroy(other), 0);
    assert_false(step(exec, 3));
    tap_front_cuda.tick();
    assert_true(step(exec, 4));
    other = capture_graph(5);
    *refuse_update = 1;
    assert_int_not_equal(cudaGraphExecUpdate(exec, other, NULL, NULL), 0);
    assert_int_equal(cudaGraphDestroy(other), 0);
    assert_false(step(exec, 5));
    tap_front_cuda.tick();
    assert_false(step(exec, 6));
    disarm(&b);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 6, 4);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
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
    assert_true(ledger(&b, "ops.dropped.threads") >= 2 * TWIN_LAYERS);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cu.stream_destroy(stream);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs_from_the_twin), cmocka_unit_test(an_arm_begins_with_twins_of_what_ran),
        cmocka_unit_test(a_twin_dies_with_its_original),
        cmocka_unit_test(pieces_of_a_step_go_together),
        cmocka_unit_test(a_graph_changed_by_hand_has_no_twin),
        cmocka_unit_test(a_graph_without_a_twin_is_named),
        cmocka_unit_test(a_refused_twin_is_replaced),
        cmocka_unit_test(an_update_is_followed),
        cmocka_unit_test(an_update_from_a_mere_graph_is_followed),
        cmocka_unit_test(two_streams_are_refused),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
