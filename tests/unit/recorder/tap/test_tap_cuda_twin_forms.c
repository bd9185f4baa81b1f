/* test_tap_cuda_twin_forms.c - forms that a server's CUDA graphs may have: each is followed, or its launches are named.
 * SPDX-License-Identifier: Apache-2.0 */
#include "twin_server.h"

#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_stage.h"

enum { PROGRAMMATIC = 1, NOT_SUPPORTED = 801 };

int cudaGraphNodeSetEnabled(void *exec, void *node);
int cudaGraphExecNodeSetParams(void *exec, void *node);
int cudaGraphExecMemcpyNodeSetParams(void *exec, void *node);
int cudaGraphExecMemsetNodeSetParams(void *exec, void *node);
int cudaGraphExecHostNodeSetParams(void *exec, void *node);
int cudaGraphExecChildGraphNodeSetParams(void *exec, void *node);
int cudaGraphAddChildGraphNode(void *node, void *graph);

/* ---- followed ------------------------------------------------------------------------------------------------------ */

static void prefill(unsigned seed)
{
    fill(seed);
    layers(gpu_stream, 9);
    cu.stream_synchronize(gpu_stream);
}

/* A prompt is computed without a graph, between steps that are graphs. */
static void prefill_is_outside_of_graphs(void **state)
{
    void *exec = capture(4);
    struct bench b;

    (void)state;
    step(exec, 1);
    arm(&b, TAP_MODE_ALL);
    prefill(2);
    assert_true(step(exec, 3));
    prefill(4);
    assert_true(step(exec, 5));
    disarm(&b);
    assert_int_equal(b.n_ops, 4 * TWIN_LAYERS);
    assert_int_equal(b.n_steps, 4);
    check_ops(&b, 0, 9, 2);
    check_ops(&b, TWIN_LAYERS, 4, 3);
    check_ops(&b, 2 * TWIN_LAYERS, 9, 4);
    check_ops(&b, 3 * TWIN_LAYERS, 4, 5);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* A capture that goes over to another stream, and comes back. */
static void a_graph_may_be_of_two_streams(void **state)
{
    void *other, *event, *exec;
    struct bench b;

    (void)state;
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cu.event_create(&event, 0), 0);
    begin_capture();
    layer_on(capture_stream, 0, 4);
    assert_int_equal(cu.event_record(event, capture_stream), 0);
    assert_int_equal(cu.stream_wait_event(other, event, 0), 0);
    layer_on(other, 1, 4);
    assert_int_equal(cu.event_record(event, other), 0);
    assert_int_equal(cu.stream_wait_event(capture_stream, event, 0), 0);
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
    cu.stream_destroy(other);
}

/* ---- named --------------------------------------------------------------------------------------------------------- */

/* Three launches of a graph that is followed, and of which there can be no twin. */
static void launch_without_twin(void *exec, int products)
{
    struct bench b;
    unsigned i;

    arm(&b, TAP_MODE_ALL);
    for (i = 1; i <= 3; i++) {
        assert_false(step(exec, i));
        tap_front_cuda.tick();
    }
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "launches.graphs"), 3);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 3);
    assert_in_range(ledger(&b, "launches.graphs_no_twin"), 2, 3); /* of some it shows when a twin is tried */
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 3 * products);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* A graph that is launched into a capture becomes a node of that graph. */
static void a_graph_within_a_graph_is_named(void **state)
{
    void *inner = capture(4);

    (void)state;
    begin_capture();
    layer_on(capture_stream, 0, 4);
    assert_int_equal(cudaGraphLaunch(inner, capture_stream), 0);
    layer_on(capture_stream, 2, 4);
    launch_without_twin(end_capture(), TWIN_LAYERS + 2);
    begin_capture();
    assert_int_equal(cudaGraphLaunch(inner, capture_stream), 0);
    launch_without_twin(end_capture(), TWIN_LAYERS);
    cudaGraphExecDestroy(inner);
}

static int (*real_clone)(void **clone, void *graph);

static int clone_nothing(void **clone, void *graph)
{
    (void)clone, (void)graph;
    return NOT_SUPPORTED;
}

/* cuda.h, cuGraphClone: "Cloning is not supported for graphs which contain" conditional nodes, and others. */
static void a_graph_that_is_not_cloned_is_named(void **state)
{
    void *exec;

    (void)state;
    real_clone = tap_driver.graph_clone;
    tap_driver.graph_clone = clone_nothing;
    exec = capture(4);
    tap_driver.graph_clone = real_clone;
    launch_without_twin(exec, TWIN_LAYERS);
}

static int (*real_info)(void *stream, int *status, uint64_t *id, void **graph, const void **nodes, const void **edges, size_t *n);
static int (*real_dependents)(void *node, void **nodes, struct td_cuda_edge *edges, size_t *n);
static const struct td_cuda_edge early = {.from_port = 1, .type = PROGRAMMATIC};
static unsigned plain_ones;            /* so many are left as they are, first */

static int early_info(void *stream, int *status, uint64_t *id, void **graph, const void **nodes, const void **edges, size_t *n)
{
    const int rc = real_info(stream, status, id, graph, nodes, edges, n);

    if (edges && n && *n)
        *edges = &early;
    return rc;
}

static int early_dependents(void *node, void **nodes, struct td_cuda_edge *edges, size_t *n)
{
    const int rc = real_dependents(node, nodes, edges, n);

    if (edges && *n && plain_ones)
        plain_ones--;
    else if (edges && *n)
        edges[0] = early;
    return rc;
}

/* What comes next may begin before the product is complete: nothing is put between the two. */
static void a_programmatic_edge_is_left_alone(void **state)
{
    void *exec;
    struct bench b;

    (void)state;
    real_info = tap_driver.capture_info, real_dependents = tap_driver.graph_dependents;
    tap_driver.capture_info = early_info;
    exec = capture(4);
    tap_driver.capture_info = real_info;
    launch_without_twin(exec, TWIN_LAYERS);

    tap_driver.graph_dependents = early_dependents;
    plain_ones = 1;                    /* behind the first product; nothing is behind the last */
    exec = capture(4);
    step(exec, 1);
    arm(&b, TAP_MODE_ALL);
    tap_driver.graph_dependents = real_dependents;
    assert_true(step(exec, 2));
    disarm(&b);
    assert_int_equal(b.n_ops, 2);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    check_some(&b, 0, 0, 1, 4, 2);
    check_some(&b, 1, 2, 1, 4, 2);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* ---- how copies are joined to the graph ---------------------------------------------------------------------------- */

static int (*real_edges)(void *graph, void *const *from, void *const *to, const struct td_cuda_edge *edges, size_t n);
static int (*real_instantiate)(void **exec, void *graph, unsigned long long flags);
static bool refuses_instance;
static int ran_early, ran_behind;

static void note_copies(const char *symbol)
{
    ran_early += !strcmp(symbol, "td_gather_waits");
    ran_behind += !strcmp(symbol, "td_gather");
}

static int plain_edges_only(void *graph, void *const *from, void *const *to, const struct td_cuda_edge *edges, size_t n)
{
    return edges->type ? NOT_SUPPORTED : real_edges(graph, from, to, edges, n);
}

static int instantiate_later(void **exec, void *graph, unsigned long long flags)
{
    const bool refused = refuses_instance;

    refuses_instance = false;
    return refused ? NOT_SUPPORTED : real_instantiate(exec, graph, flags);
}

/* The copies are launched early, and wait for the product by themselves, where the driver makes such a node, such an edge, and such a graph; else they are
 * launched behind it. What depended on the product depends on them. */
static void copies_are_early_where_they_may_be(void **state)
{
    enum { EARLY, NO_SUCH_EDGE, NO_SUCH_GRAPH, NO_SUCH_KERNEL, WAYS };
    uint64_t removed;
    struct bench b;
    void *exec;
    int way;

    (void)state;
    real_edges = tap_driver.graph_add_edges, real_instantiate = tap_driver.graph_instantiate;
    for (way = 0; way < WAYS; way++) {
        tap_gpu_stage_forget();
        tap_driver.graph_add_edges = way == NO_SUCH_EDGE ? plain_edges_only : real_edges;
        if (way == NO_SUCH_KERNEL)
            say->fault("load", 2, TD_CUDA_INVALID_IMAGE);
        exec = capture(4);
        step(exec, 1);
        refuses_instance = way == NO_SUCH_GRAPH;
        tap_driver.graph_instantiate = instantiate_later;
        removed = say->calls("cuGraphRemoveDependencies_v2");
        arm(&b, TAP_MODE_ALL);
        tap_driver.graph_instantiate = real_instantiate;
        assert_int_equal(say->calls("cuGraphRemoveDependencies_v2") - removed, (TWIN_LAYERS - 1) * (way == NO_SUCH_GRAPH ? 2 : 1));
        ran_early = ran_behind = 0;
        say->on_ran(note_copies);
        assert_true(step(exec, 2));
        say->on_ran(NULL);
        assert_int_equal(ran_early, way == EARLY || way == NO_SUCH_EDGE ? TWIN_LAYERS : 0);
        assert_int_equal(ran_behind, TWIN_LAYERS - ran_early);
        disarm(&b);
        assert_int_equal(b.n_ops, TWIN_LAYERS);
        check_ops(&b, 0, 4, 2);
        bench_close(&b);
        cudaGraphExecDestroy(exec);
    }
    tap_driver.graph_add_edges = real_edges;
    tap_gpu_stage_forget();
}

/* Every function by which an executable graph is changed. */
static void a_change_after_capture_is_named(void **state)
{
    int (*const change[])(void *exec, void *node) = {cudaGraphNodeSetEnabled, cudaGraphExecNodeSetParams, cudaGraphExecMemcpyNodeSetParams,
                                                     cudaGraphExecMemsetNodeSetParams, cudaGraphExecHostNodeSetParams, cudaGraphExecChildGraphNodeSetParams};
    void *exec;
    size_t i;
    struct bench b;

    (void)state;
    for (i = 0; i < sizeof change / sizeof *change; i++) {
        exec = capture(4);
        step(exec, 1);
        arm(&b, TAP_MODE_ALL);
        assert_true(step(exec, 2));
        assert_int_equal(change[i](exec, exec), 0);
        assert_false(step(exec, 3));
        tap_front_cuda.tick();
        assert_false(step(exec, 4));
        disarm(&b);
        assert_int_equal(ledger(&b, "launches.graphs"), 3);
        assert_int_equal(ledger(&b, "launches.graphs_read"), 1);
        bench_close(&b);
        cudaGraphExecDestroy(exec);
    }
}

/* A child graph that is added by hand. */
static void a_child_graph_is_not_read(void **state)
{
    void *graph = capture_graph(4), *exec;
    struct bench b;

    (void)state;
    assert_int_equal(cudaGraphAddChildGraphNode(NULL, graph), 0);
    exec = instantiated(graph);
    arm(&b, TAP_MODE_ALL);
    assert_false(step(exec, 1));
    tap_front_cuda.tick();
    assert_false(step(exec, 2));
    disarm(&b);
    assert_int_equal(ledger(&b, "launches.graphs"), 2);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 0);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_is_outside_of_graphs),
        cmocka_unit_test(a_graph_may_be_of_two_streams),
        cmocka_unit_test(a_graph_within_a_graph_is_named),
        cmocka_unit_test(a_graph_that_is_not_cloned_is_named),
        cmocka_unit_test(a_programmatic_edge_is_left_alone),
        cmocka_unit_test(copies_are_early_where_they_may_be),
        cmocka_unit_test(a_change_after_capture_is_named),
        cmocka_unit_test(a_child_graph_is_not_read),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
