/* test_tap_cuda_twin_bound.c - what twins of CUDA graphs take of the GPU is bounded, and given back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * With 1 MiB for all of it: half is the arena, and the other half has room for two twins of three layers. */
#include "twin_server.h"

#include <pthread.h>

#include "recorder/tap/cuda/cuda_twin_stock.h"

#define TWIN_BYTES ((3 + 3) * 38 << 10) /* three products, three copies */

static int64_t bytes_counted(const struct bench *b)
{
    return td_json_get_i64(td_json_get(td_json_get(td_fixture_manifest(b->fx), "ledger"), "twins.made"), "bytes", -1);
}

/* The third graph has no twin while the others are in use, and gets one once the one that has been idle for longest may go. */
static void the_least_useful_twin_goes(void **state)
{
    void *exec[3] = {capture(2), capture(3), capture(4)};
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 3; i++) {
        step(exec[i], 1);
        tap_front_cuda.tick();
    }
    assert_true(step(exec[0], 2));
    assert_true(step(exec[1], 2));
    assert_false(step(exec[2], 2));
    assert_true(step(exec[0], 3));
    tap_cuda_twin_idle_ns = 0;
    usleep(1100000);                   /* a second after it failed it is tried again */
    assert_false(step(exec[2], 4));
    tap_front_cuda.tick();
    tap_cuda_twin_idle_ns = 5000000000LL;
    assert_true(step(exec[2], 5));
    assert_true(step(exec[0], 5));
    assert_false(step(exec[1], 5));    /* the oldest, gone */
    disarm(&b);
    assert_int_equal(ledger(&b, "twins.made"), 3);
    assert_int_equal(bytes_counted(&b), 3 * TWIN_BYTES);
    assert_int_equal(ledger(&b, "launches.graphs_no_room"), 2);
    check_ops(&b, b.n_ops - TWIN_LAYERS, 2, 5);
    bench_close(&b);
    for (i = 0; i < 3; i++)
        cudaGraphExecDestroy(exec[i]);
}

/* Nothing stays at the end of an arm, but where the server captures just then: freeing would fail its capture. */
static void memory_is_given_back(void **state)
{
    void *exec = capture(4), *graph;
    struct bench b;
    size_t before;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    disarm(&b);
    bench_close(&b);
    before = say->bytes_in_use();
    for (i = 0; i < 3; i++) {
        arm(&b, TAP_MODE_ALL);
        step(exec, 1);
        tap_front_cuda.tick();
        assert_true(step(exec, 2));
        assert_int_equal(say->bytes_in_use() - before, 512 << 10);
        if (i == 1) {
            begin_capture();
            layers(capture_stream, 4);
        }
        disarm(&b);
        check_ops(&b, b.n_ops - TWIN_LAYERS, 4, 2);
        bench_close(&b);
        assert_int_equal(say->bytes_in_use() - before, i == 1 ? 512 << 10 : 0);
        if (i == 1) {
            assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
            assert_int_equal(cudaGraphDestroy(graph), 0);
        }
    }
    cudaGraphExecDestroy(exec);
}

/* ---- a server that goes on meanwhile ------------------------------------------------------------------------------- */

static struct { void *exec[3]; _Atomic bool over; _Atomic unsigned steps; } serving;

/* Now and then a graph is captured anew. */
static void *serve(void *arg)
{
    unsigned n;

    cu.ctx_set_current(gpu_context);
    while (!atomic_load(&serving.over)) {
        n = atomic_fetch_add(&serving.steps, 1);
        cudaGraphLaunch(serving.exec[n % 3], gpu_stream);
        cu.stream_synchronize(gpu_stream);
        if (n % 16)
            continue;
        cudaGraphExecDestroy(serving.exec[n % 3]);
        serving.exec[n % 3] = capture((int)(n % 3) + 2);
    }
    return arg;
}

/* C of each op is A W, whatever was made and destroyed while it was computed. */
static void check_products(const struct bench *b)
{
    struct td_error err = {0};
    size_t i, bytes;
    void *a, *weight;
    int l;

    for (i = 0; i < b->n_ops; i++) {
        const struct td_op *op = &b->ops[i];

        assert_int_equal(td_fixture_blob(b->fx, td_op_rec_in(op, "w")->blob, UINT64_MAX, &weight, &bytes, &err), 0);
        for (l = 0; l < TWIN_LAYERS && memcmp(weight, (void *)w[l], K * K * 2) != 0; l++)
            ;
        assert_true(l < TWIN_LAYERS);
        assert_int_equal(td_fixture_blob(b->fx, td_op_rec_in(op, "a")->blob, UINT64_MAX, &a, &bytes, &err), 0);
        memcpy((void *)buffer[l % 2], a, bytes);
        layer_on(gpu_stream, l, (int)(bytes / (K * 2)));
        cu.stream_synchronize(gpu_stream);
        check_blob(b, &op->out, (void *)buffer[(l + 1) % 2], bytes);
        free(a);
        free(weight);
    }
}

/* Three graphs in turn, and room for two twins: for some ticks one is made and another one goes, then they stay for some. */
static void twins_come_and_go_while_graphs_are_launched(void **state)
{
    unsigned armed, i, steps;
    size_t recorded = 0;
    pthread_t server;
    struct bench b;

    (void)state;
    for (i = 0; i < 3; i++)
        serving.exec[i] = capture((int)i + 2);
    fill(1);
    assert_int_equal(pthread_create(&server, NULL, serve, NULL), 0);
    for (armed = 0; armed < 4; armed++) {
        arm(&b, TAP_MODE_ALL);
        steps = atomic_load(&serving.steps);
        for (i = 0; i < 2000 && (i < 50 || atomic_load(&serving.steps) - steps < 60); i++) {
            tap_cuda_twin_idle_ns = i % 20 < 10 ? 0 : 5000000000LL;
            tap_front_cuda.tick();
            while (client_drain(&b.l, b.lk))
                ;
            usleep(500);
        }
        if (armed == 3) {
            atomic_store(&serving.over, true);
            pthread_join(server, NULL);
        }
        disarm(&b);
        recorded += b.n_ops;
        if (armed == 3)
            check_products(&b);
        bench_close(&b);
    }
    assert_true(recorded > 0);
    for (i = 0; i < 3; i++)
        cudaGraphExecDestroy(serving.exec[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_useful_twin_goes),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(twins_come_and_go_while_graphs_are_launched),
    };

    (void)argc;
    twins_on(argv, "1");
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
