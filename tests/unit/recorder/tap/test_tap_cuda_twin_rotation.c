/* test_tap_cuda_twin_rotation.c - a graph whose operands are more than there is memory for copies: a twin copies a part of its products, and all come in turn.
 * SPDX-License-Identifier: Apache-2.0
 *
 * With 1 MiB for all of it the arena has 512 KiB. A product of 1000 rows has 250 KiB and a sample of its weights, so two of the four layers fit. */
#define TWIN_LAYERS 4
#define TWIN_ROWS 1000
#include "twin_server.h"

#include <pthread.h>

enum { ROWS = TWIN_ROWS, TURN = 4, LATE = 5 }; /* LATE: steps of a turn where the tap's thread comes late */

/* A step, and the recorder reads it: a ring holds no more than two of them. */
static bool read_step(struct bench *b, void *exec, unsigned seed)
{
    bool twin = step(exec, seed);
    int i;

    for (i = 0; i < 20; i++) {
        while (client_drain(&b->l, b->lk))
            ;
        usleep(2000);
    }
    return twin;
}

static bool step_and_tick(struct bench *b, void *exec, unsigned seed)
{
    bool twin = read_step(b, exec, seed);

    tap_front_cuda.tick();
    return twin;
}

/* The ops of the recorded steps: three turns. */
static void check_turns(const struct bench *b)
{
    static const struct { int first, n; } part[] = {{0, 2}, {2, 2}, {0, 2}};
    size_t at = 0;
    unsigned seed = 2;
    int p, i;

    for (p = 0; p < 3; p++)
        for (i = 0; i < LATE; i++, seed++) {
            check_some(b, at, part[p].first, part[p].n, ROWS, seed);
            at += (size_t)part[p].n;
        }
    assert_int_equal(at, b->n_ops);
}

/* The old twin is launched until there is one of the next part. */
static void all_products_come_in_turn(void **state)
{
    void *exec = capture(ROWS);
    unsigned seed;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    for (seed = 1; seed < 2 + 3 * LATE; seed++) {
        assert_true(read_step(&b, exec, seed) == (seed > 1));
        if (seed % LATE == 1)
            tap_front_cuda.tick();
    }
    disarm(&b);
    check_turns(&b);
    assert_int_equal(b.n_steps, 3 * LATE);
    assert_int_equal(ledger(&b, "ops.dropped.rotation"), LATE * 6);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), TWIN_LAYERS); /* of the step before there was a twin */
    assert_int_equal(ledger(&b, "launches.graphs_no_room"), 0);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* Beside another twin there is no room for two of this graph: the old one goes first. */
static void the_old_twin_makes_room(void **state)
{
    void *exec = capture(ROWS), *graph, *other;
    uint64_t destroyed;
    unsigned seed;
    struct bench b;

    (void)state;
    begin_capture();
    layer_on(capture_stream, 0, 2);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&other, graph, 1), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    arm(&b, TAP_MODE_ALL);
    step_and_tick(&b, other, 1);
    destroyed = say->calls("cuGraphExecDestroy");
    for (seed = 1; seed < 2 + 3 * TURN; seed++)
        assert_true(step_and_tick(&b, exec, seed) == (seed > 1));
    assert_int_equal(say->calls("cuGraphExecDestroy") - destroyed, 3);
    assert_true(step_and_tick(&b, other, 1));
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.rotation"), TURN * 6);
    assert_int_equal(ledger(&b, "launches.graphs_no_room"), 0);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
    cudaGraphExecDestroy(other);
}

static void *launch_slowly(void *exec)
{
    cu.ctx_set_current(gpu_context);
    *pause_us = 300000;
    cudaGraphLaunch(exec, gpu_stream);
    *pause_us = 0;
    return NULL;
}

/* A thread that launches the old twin loses its core; the tap's thread wants to put the next one in its place, and waits for a later tick. */
static void a_twin_that_is_launched_stays(void **state)
{
    void *exec = capture(ROWS);
    const void *old;
    pthread_t server;
    unsigned seed;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step_and_tick(&b, exec, 1);
    for (seed = 2; seed < 2 + TURN; seed++)
        assert_true(read_step(&b, exec, seed));
    old = *launched;
    fill(seed);
    assert_int_equal(pthread_create(&server, NULL, launch_slowly, exec), 0);
    usleep(100000);
    tap_front_cuda.tick();
    pthread_join(server, NULL);
    cu.stream_synchronize(gpu_stream);
    assert_ptr_equal(*launched, old);
    tap_front_cuda.tick();
    assert_true(read_step(&b, exec, seed + 1));
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * (TURN + 2));
    check_some(&b, 2 * TURN, 0, 2, ROWS, seed);
    check_some(&b, 2 * TURN + 2, 2, 2, ROWS, seed + 1);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* Of a step without a twin, none is in rotation; and a graph that fits has no parts. */
static void a_graph_that_fits_is_whole(void **state)
{
    void *exec = capture(2);
    unsigned seed;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    for (seed = 1; seed < 3 * TURN; seed++)
        step_and_tick(&b, exec, seed);
    disarm(&b);
    assert_int_equal(b.n_ops, (3 * TURN - 2) * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.rotation"), 0);
    assert_int_equal(ledger(&b, "twins.made"), 1);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_products_come_in_turn),
        cmocka_unit_test(the_old_twin_makes_room),
        cmocka_unit_test(a_twin_that_is_launched_stays),
        cmocka_unit_test(a_graph_that_fits_is_whole),
    };

    (void)argc;
    twins_on(argv, "1");
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
