/* test_tap_cuda_graphs.c - CUDA graphs with --graphs: captured in view of the tap on the fake driver, launched, recorded into a fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The tap reads TD_TAP_GRAPHS from the environment that it was loaded in, so the program starts itself again with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_driver.h"

#define ARENA_MIB "1"

static void arm(struct bench *b, uint32_t mode)
{
    bench_open(b, mode);
    assert_null(tap_front_cuda.start());
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    assert_true(cupti_subscribed());   /* for good: a graph that came and went meanwhile would not be known */
    bench_read(b);
}

static int64_t attr(const struct td_op *op, const char *name)
{
    return td_json_get_i64(op->attrs, name, -99);
}

static bool in_graph(const struct td_op *op)
{
    const cJSON *l;

    cJSON_ArrayForEach(l, op->impl.launches)
        if (!cJSON_IsTrue(cJSON_GetObjectItem(l, "graph")))
            return false;
    return true;
}

/* As torch does: global mode, on a stream of its own, the CUgraph destroyed as soon as there is a CUgraphExec. */
static void *capture_stream;

static void capture_begin(void **served)
{
    if (!capture_stream)
        assert_int_equal(cu.stream_create(&capture_stream, TD_CUDA_STREAM_NON_BLOCKING), 0);
    *served = gpu_stream;
    gpu_stream = capture_stream;
    assert_int_equal(cu.stream_begin_capture(gpu_stream, 0), 0);
}

static void *capture_end(void *served)
{
    void *graph, *exec;

    assert_int_equal(cu.stream_end_capture(gpu_stream, &graph), 0);
    assert_int_equal(cu.graph_instantiate(&exec, graph, 0), 0);
    assert_int_equal(cu.graph_destroy(graph), 0);
    gpu_stream = served;
    return exec;
}

/* Layers [from, to) of a pass. */
static void *capture(int from, int to, int m)
{
    void *served, *exec;
    int l;

    capture_begin(&served);
    for (l = from; l < to; l++) {
        gpu_others(3);
        gpu_gemm(&layer[l], m);
    }
    exec = capture_end(served);
    return exec;
}

static void replay(void *exec)
{
    assert_int_equal(cu.graph_launch(exec, gpu_stream), 0);
}

static void pass(void *exec, int m, unsigned seed)
{
    gpu_others(20);
    gpu_activations(m, seed);
    replay(exec);
    cu.stream_synchronize(gpu_stream);
}

/* What layer l makes of the activations of that seed, computed eagerly and unseen. */
static void check_op(const struct bench *b, const struct td_op *op, int l, int m, unsigned seed)
{
    gpu_activations(m, seed);
    gpu_gemm(&layer[l], m);
    cu.stream_synchronize(gpu_stream);
    assert_int_equal(attr(op, "m"), m);
    assert_int_equal(attr(op, "n"), layer[l].n);
    check_blob(b, td_op_rec_in(op, "a"), (void *)dev_a, (size_t)(m * K) * 2);
    check_blob(b, &op->out, (void *)dev_c, (size_t)(m * layer[l].n) * 2);
}

static void a_launch_of_a_graph_is_a_step(void **state)
{
    uint64_t allocations = say->calls("cuMemAlloc_v2");
    void *exec = capture(0, LAYERS, 1);
    struct bench b;
    int i;

    (void)state;
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations + 1); /* the arena, before the first capture */
    pass(exec, 1, 1);                  /* asleep: nobody looks */
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 2);
    pass(exec, 1, 3);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(b.n_steps, 2);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.known"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.seen"), 2 * (LAYERS + 20 + 3 * LAYERS));
    assert_int_equal(ledger(&b, "launches.graphs"), 2);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 2);
    assert_int_equal(ledger(&b, "weights.seen"), LAYERS);
    for (i = 0; i < 2 * LAYERS; i++) {
        assert_true(in_graph(&b.ops[i]));
        assert_int_equal(b.ops[i].step, b.steps[i / LAYERS].step);
        assert_string_equal(b.ops[i].impl.symbol, FAKE_GPTQ_4BIT(1));
        check_op(&b, &b.ops[i], i % LAYERS, 1, i < LAYERS ? 2 : 3);
    }
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* cuGraphLaunch_ptsz with no stream: the thread's own, which a capture elsewhere leaves alone. */
static void a_graph_on_the_threads_own_stream(void **state)
{
    void *exec = capture(0, LAYERS, 1), *graph;
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_activations(1, 4);
    assert_int_equal(cu.stream_begin_capture(capture_stream, 0), 0);
    assert_int_equal(cu.graph_launch_ptsz(exec, NULL), 0);
    assert_int_equal(cu.stream_end_capture(capture_stream, &graph), 0);
    cu.ctx_synchronize();
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(ledger(&b, "launches.graphs"), 1);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 1);
    for (i = 0; i < LAYERS; i++)
        check_op(&b, &b.ops[i], i, 1, 4);
    check_balance(&b);
    bench_close(&b);
    cu.graph_destroy(graph);
    cu.graph_exec_destroy(exec);
}

/* As vLLM's piecewise graphs: a graph a layer, other kernels between; all use the same slots. */
static void pieces_are_one_step(void **state)
{
    void *exec[LAYERS];
    struct bench b;
    int p, l;

    (void)state;
    for (l = 0; l < LAYERS; l++)
        exec[l] = capture(l, l + 1, 20);
    arm(&b, TAP_MODE_ALL);
    for (p = 0; p < 2; p++) {
        gpu_others(20);
        gpu_activations(20, (unsigned)p);
        for (l = 0; l < LAYERS; l++) {
            gpu_others(3);
            replay(exec[l]);
        }
    }
    gpu_pass(1, 9);                    /* and one without graphs */
    disarm(&b);
    assert_int_equal(b.n_steps, 3);
    assert_int_equal(b.n_ops, 3 * LAYERS);
    for (l = 0; l < 2 * LAYERS; l++) {
        assert_int_equal(b.ops[l].step, b.steps[l / LAYERS].step);
        assert_int_equal(cJSON_GetArraySize(b.ops[l].impl.launches), 2); /* 16 + 4 rows */
        check_op(&b, &b.ops[l], l % LAYERS, 20, (unsigned)(l / LAYERS));
    }
    assert_true(in_graph(&b.ops[0]));
    assert_false(in_graph(&b.ops[2 * LAYERS]));
    check_balance(&b);
    bench_close(&b);
    for (l = 0; l < LAYERS; l++)
        cu.graph_exec_destroy(exec[l]);
}

static void samples_are_whole_steps(void **state)
{
    void *exec = capture(0, LAYERS, 1);
    struct bench b;
    int p;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);
    for (p = 0; p < 21; p++)
        pass(exec, 1, (unsigned)p);
    disarm(&b);
    assert_in_range(b.n_steps, 2, 7);
    assert_int_equal(b.n_ops, b.n_steps * LAYERS);
    assert_int_equal(ledger(&b, "ops.seen"), 21 * LAYERS);
    check_balance(&b);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* The arena holds 1 MiB: what has no slot is counted at each launch, and no op is half an op. */
static void a_full_arena_is_counted(void **state)
{
    enum { M = 509, OPS = 3 * LAYERS };
    void *served, *exec;
    struct bench b;
    size_t i;
    int l;

    (void)state;
    capture_begin(&served);
    for (l = 0; l < OPS; l++)
        gpu_gemm(&layer[l % LAYERS], M);
    exec = capture_end(served);
    arm(&b, TAP_MODE_ALL);
    pass(exec, M, 1);
    disarm(&b);
    assert_in_range(b.n_ops, 3, OPS - 1);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), OPS - b.n_ops);
    assert_int_equal(ledger(&b, "ops.seen"), OPS);
    for (i = 0; i < b.n_ops; i++)
        check_op(&b, &b.ops[i], (int)i % LAYERS, M, 1);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* The recorder's ring holds no more than the arena. */
static void read_meanwhile(struct bench *b)
{
    int i;

    cu.stream_synchronize(gpu_stream);
    for (i = 0; i < 20; i++) {
        usleep(20000);
        tap_front_cuda.tick();
        while (client_drain(&b->l, b->lk))
            ;
    }
}

/* Room for the first launch of an op, and not for the second. */
static void half_an_op_is_none(void **state)
{
    enum { ROUND = (512 * K + 512 * 32) * 2 }; /* 512 rows of layer 0: 98304 bytes, ten of them leave 65536 */
    uint64_t copies = say->calls("cuMemcpyDtoDAsync_v2");
    void *served, *exec;
    struct bench b;
    int i;

    (void)state;
    assert_int_equal((1 << 20) - 10 * ROUND, 65536);
    capture_begin(&served);
    for (i = 0; i < 5; i++) {
        gpu_launch(&layer[0], 0, 512, 8);
        gpu_launch(&layer[1], 0, 256, 8); /* 65536 bytes */
    }
    gpu_launch(&layer[2], 0, 480, 8);  /* 153600 of the 229376 that are left, to 75776 */
    gpu_launch(&layer[1], 0, 256, 8);  /* to 10240 */
    gpu_launch(&layer[0], 0, 48, 8);   /* 9216, to 1024 */
    gpu_launch(&layer[0], 48, 8, 8);   /* 1536: it does not fit */
    exec = capture_end(served);
    assert_int_equal(say->calls("cuMemcpyDtoDAsync_v2") - copies, 13 * 2); /* nothing beyond the arena's end */
    arm(&b, TAP_MODE_ALL);
    gpu_activations(MAX_ROWS, 1);
    replay(exec);
    read_meanwhile(&b);
    disarm(&b);
    assert_int_equal(b.n_ops, 12);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    assert_int_equal(ledger(&b, "ops.seen"), 13);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* ---- handles ------------------------------------------------------------------------------------------------------- */

static void graph_of(int l, void **graph)
{
    void *served;

    capture_begin(&served);
    gpu_gemm(&layer[l], 1);
    assert_int_equal(cu.stream_end_capture(gpu_stream, graph), 0);
    gpu_stream = served;
}

static void an_update_is_followed(void **state)
{
    void *exec = capture(2, 3, 1), *graph, *clone;
    struct bench b;

    (void)state;
    graph_of(0, &graph);               /* a layer that passes begin with */
    assert_int_equal(cu.graph_clone(&clone, graph), 0);
    cu.graph_destroy(graph);
    assert_int_equal(cu.graph_exec_update(exec, clone, NULL), 0);
    cu.graph_destroy(clone);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 4);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    check_op(&b, &b.ops[0], 0, 1, 4);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* A server that changes a node of an executable graph, or adds one to a graph before that is instantiated, as it does for conditional nodes. */
static void a_change_by_hand_is_not_read(void **state)
{
    void *changed = capture(0, LAYERS, 1), *graph, *grown;
    struct bench b;

    (void)state;
    graph_of(0, &graph);
    assert_int_equal(cu.graph_add_node(NULL, graph, NULL, NULL, 0, NULL), 0);
    assert_int_equal(cu.graph_instantiate(&grown, graph, 0), 0);
    cu.graph_destroy(graph);
    arm(&b, TAP_MODE_ALL);
    pass(changed, 1, 1);
    assert_int_equal(cu.graph_exec_set_kernel(changed, NULL, NULL), 0);
    pass(changed, 1, 2);
    pass(grown, 1, 3);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    check_op(&b, &b.ops[0], 0, 1, 1);
    assert_int_equal(ledger(&b, "launches.graphs"), 3);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 1);
    bench_close(&b);
    cu.graph_exec_destroy(changed);
    cu.graph_exec_destroy(grown);
}

/* A capture that goes over to another stream, and comes back. */
static void a_graph_may_be_of_two_streams(void **state)
{
    void *served, *exec, *event, *other;
    struct bench b;
    int i;

    (void)state;
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cu.event_create(&event, 0), 0);
    capture_begin(&served);
    gpu_gemm(&layer[0], 1);
    assert_int_equal(cu.event_record(event, gpu_stream), 0);
    assert_int_equal(cu.stream_wait_event(other, event, 0), 0);
    gpu_stream = other;
    gpu_gemm(&layer[1], 1);
    assert_int_equal(cu.event_record(event, gpu_stream), 0);
    gpu_stream = capture_stream;
    assert_int_equal(cu.stream_wait_event(gpu_stream, event, 0), 0);
    gpu_gemm(&layer[2], 1);
    exec = capture_end(served);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 4);
    disarm(&b);
    assert_int_equal(b.n_ops, 3);
    for (i = 0; i < 3; i++)
        check_op(&b, &b.ops[i], i, 1, 4);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
    cu.stream_destroy(other);
}

/* An exec that is gone, a capture that failed: whoever gets such a handle next has nothing to do with them. The fake takes memory for handles from
 * malloc, which gives a size that was freed just now again. */
static void old_handles_mean_nothing(void **state)
{
    void *exec = capture(0, LAYERS, 1), *stream, *graph, *again = NULL;
    struct bench b;

    (void)state;
    cu.stream_create(&stream, TD_CUDA_STREAM_NON_BLOCKING);
    cu.graph_exec_destroy(exec);
    assert_int_equal(cu.stream_begin_capture(stream, 0), 0);
    assert_int_equal(cu.stream_end_capture(stream, &graph), 0);
    assert_int_equal(cu.graph_instantiate(&again, graph, 0), 0);
    arm(&b, TAP_MODE_ALL);
    pass(again, 1, 4);
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "launches.graphs"), 1);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 0);
    bench_close(&b);
    cu.graph_exec_destroy(again);
    cu.graph_destroy(graph);
    cu.stream_destroy(stream);
}

static void a_failed_capture_is_nothing(void **state)
{
    void *served, *graph, *exec;
    struct bench b;
    int i;

    (void)state;
    for (i = 0; i < 9; i++) {          /* malloc keeps seven back before calloc gets one again */
        capture_begin(&served);
        gpu_gemm(&layer[1], 1);
        assert_int_equal(cu.stream_synchronize(gpu_stream), TD_CUDA_STREAM_CAPTURE_UNSUPPORTED); /* breaks it */
        assert_int_equal(cu.stream_end_capture(gpu_stream, &graph), TD_CUDA_STREAM_CAPTURE_INVALIDATED);
        gpu_stream = served;
    }
    exec = capture(0, 1, 1);           /* under the same handle */
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 4);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    check_op(&b, &b.ops[0], 0, 1, 4);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* ---- what cannot be right ------------------------------------------------------------------------------------------- */

/* On two streams one graph may write into the other's slots: from then on none is taken, and what was on its way is not either. */
static void two_streams_are_refused(void **state)
{
    void *exec = capture(0, LAYERS, 1), *first = gpu_stream, *other;
    struct bench b;

    (void)state;
    cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 1);
    usleep(200000);
    tap_front_cuda.tick();             /* idle: handed over */
    usleep(200000);
    say->use_thread(false);            /* the device stands still */
    replay(exec);
    gpu_stream = other;
    replay(exec);
    gpu_stream = first;
    replay(exec);
    say->use_thread(true);
    cu.stream_synchronize(first);
    cu.stream_synchronize(other);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.threads"), 3 * LAYERS);
    check_balance(&b);
    check_op(&b, &b.ops[0], 0, 1, 1);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
    cu.stream_destroy(other);
}

/* ---- two threads on one stream ----------------------------------------------------------------------------------- */

static void *other_exec;

static void *launch_other(void *result)
{
    cu.ctx_set_current(gpu_context);
    *(int *)result = cu.graph_launch(other_exec, gpu_stream);
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

/* A thread launches a graph; before the tap has had its slots copied another one launches a graph on that stream, which writes to the same slots. */
static void two_threads_copies_are_void(void **state)
{
    void *exec = capture(0, LAYERS, 1);
    struct bench b;
    int i;

    (void)state;
    other_exec = capture(0, LAYERS, 4);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 1);
    say->behind_graph(another_thread_launches);
    pass(exec, 1, 2);
    pass(other_exec, 4, 3);            /* as ever after that */
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.threads"), 2 * LAYERS);
    for (i = 0; i < 2 * LAYERS; i++)
        check_op(&b, &b.ops[i], i % LAYERS, i < LAYERS ? 1 : 4, i < LAYERS ? 1 : 3);
    check_balance(&b);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
    cu.graph_exec_destroy(other_exec);
}

static int (*real_launch) FAKE_CUDA_LAUNCH_ARGS;
static unsigned copies;

/* The tap copies by a kernel, an op in a launch. */
static int copy_in_company FAKE_CUDA_LAUNCH_ARGS
{
    if (++copies == 2)
        another_thread_launches();
    return real_launch(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}

/* The same, while the tap has them copied. What it had before that is right, and may be sent. */
static void copies_end_where_another_thread_comes(void **state)
{
    void *exec = capture(0, LAYERS, 1);
    struct bench b;
    size_t i;

    (void)state;
    other_exec = capture(0, LAYERS, 4);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 1);
    real_launch = tap_driver.launch;
    tap_driver.launch = copy_in_company;
    copies = 0;
    pass(exec, 1, 2);
    tap_driver.launch = real_launch;
    assert_true(copies >= 2);
    pass(exec, 1, 3);
    disarm(&b);
    assert_int_equal(b.n_ops + ledger(&b, "ops.dropped.threads"), 4 * LAYERS);
    assert_true(ledger(&b, "ops.dropped.threads") > LAYERS);
    for (i = 0; i < b.n_ops; i++)
        check_op(&b, &b.ops[i], (int)i % LAYERS, 1, i < LAYERS ? 1 : i >= b.n_ops - LAYERS ? 3 : 2);
    check_balance(&b);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
    cu.graph_exec_destroy(other_exec);
}

static void a_graph_in_a_graph_is_counted(void **state)
{
    void *inner = capture(1, 2, 1), *served, *exec;
    struct bench b;

    (void)state;
    capture_begin(&served);
    gpu_gemm(&layer[0], 1);
    assert_int_equal(cu.graph_launch(inner, gpu_stream), 0);
    gpu_gemm(&layer[2], 1);
    exec = capture_end(served);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 4);
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 3);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
    cu.graph_exec_destroy(inner);
}

/* More than 50 rows: W made whole, then cuBLAS. */
static void other_forms_are_counted(void **state)
{
    uint64_t b_at = gpu_memory(K * 32 * 2);
    int k = K, n = layer[0].n, groups = K / GROUP;
    uint8_t v2 = 0;
    void *at[] = {&layer[0].qweight, &layer[0].perm, &layer[0].qzeros, &layer[0].scales, &k, &n, &groups, &v2, &b_at}, *served, *exec;
    struct bench b;

    (void)state;
    capture_begin(&served);
    assert_int_equal(cu.launch(gpu_kernel(FAKE_RECONSTRUCT), 1, 1, 1, 128, 1, 1, 0, gpu_stream, at, NULL), 0);
    exec = capture_end(served);
    arm(&b, TAP_MODE_ALL);
    pass(exec, 1, 4);
    pass(exec, 1, 5);
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 2);
    assert_int_equal(ledger(&b, "launches.graphs_read"), 2);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* Captured while armed: at the capture nothing is computed, so nothing is counted. */
static void a_capture_while_armed(void **state)
{
    struct bench b;
    void *exec;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    exec = capture(0, LAYERS, 1);
    pass(exec, 1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    check_op(&b, &b.ops[LAYERS + 1], 1, 1, 2);
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

/* The flight recorder takes what a graph has copied to its slots: two passes are in the sample, the others fly. */
static void what_the_sample_leaves_out_flies(void **state)
{
    void *exec = capture(0, LAYERS, 1);
    struct bench b;
    unsigned p;
    int i;

    (void)state;
    bench_open(&b, TAP_MODE_SAMPLE);
    tap_plan.percent_ppm = 1;
    tap_plan.flight_bytes = 1 << 20;
    b.l.mode.flight_mib = 1;
    pthread_mutex_init(&b.l.lock, NULL);
    assert_null(tap_front_cuda.start());
    for (p = 1; p <= 5; p++)
        pass(exec, 1, p);
    assert_true(tap_flight_trigger(TAP_DUMP_SIGNAL));
    for (i = 0; i < 15; i++) {
        usleep(20000);
        tap_front_cuda.tick();
        while (client_drain(&b.l, b.lk))
            ;
    }
    tap_plan.flight_bytes = 0;
    client_flight_facts(&b.l.flight, b.l.mode.flight_mib, b.l.opt.writer);
    disarm(&b);
    assert_int_equal(b.n_ops, 5 * LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.flight"), 0);
    for (i = 0; i < 5 * LAYERS; i++) {
        assert_true(in_graph(&b.ops[i]));
        assert_true((td_json_get_str(b.ops[i].extra, "flight", NULL) != NULL) == (i >= 2 * LAYERS));
        check_op(&b, &b.ops[i], i % LAYERS, 1, (unsigned)(i / LAYERS) + 1);
    }
    bench_close(&b);
    cu.graph_exec_destroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_of_a_graph_is_a_step),
        cmocka_unit_test(a_graph_on_the_threads_own_stream),
        cmocka_unit_test(pieces_are_one_step),
        cmocka_unit_test(samples_are_whole_steps),
        cmocka_unit_test(a_full_arena_is_counted),
        cmocka_unit_test(half_an_op_is_none),
        cmocka_unit_test(an_update_is_followed),
        cmocka_unit_test(a_change_by_hand_is_not_read),
        cmocka_unit_test(a_graph_may_be_of_two_streams),
        cmocka_unit_test(old_handles_mean_nothing),
        cmocka_unit_test(a_failed_capture_is_nothing),
        cmocka_unit_test(two_streams_are_refused),
        cmocka_unit_test(two_threads_copies_are_void),
        cmocka_unit_test(copies_end_where_another_thread_comes),
        cmocka_unit_test(a_graph_in_a_graph_is_counted),
        cmocka_unit_test(other_forms_are_counted),
        cmocka_unit_test(a_capture_while_armed),
        cmocka_unit_test(what_the_sample_leaves_out_flies),
    };

    (void)argc;
    if (!getenv("TD_TAP_GRAPHS")) {
        setenv("TD_TAP_GRAPHS", ARENA_MIB, 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
