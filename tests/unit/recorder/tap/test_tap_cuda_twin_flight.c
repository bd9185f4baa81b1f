/* test_tap_cuda_twin_flight.c - the flight recorder in CUDA graphs: with it every step runs from a twin, and what the sample leaves out passes the ring.
 * SPDX-License-Identifier: Apache-2.0 */
#include "twin_server.h"

#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"

enum { TAKEN = 2, FLOWN = 6, BAD = 2 + TAKEN + FLOWN, NAN_HALF = 0x7e00, ROWS = 4 }; /* TAKEN: steps of a size that sampling takes */

static void arm_flight(struct bench *b)
{
    bench_open(b, TAP_MODE_SAMPLE);
    tap_plan.percent_ppm = 1;
    tap_plan.flight_bytes = 1 << 20;
    b->l.mode.flight_mib = 1;
    pthread_mutex_init(&b->l.lock, NULL);
    assert_null(tap_front_cuda.start());
    assert_true(tap_flight_is_on());
}

static void disarm_flight(struct bench *b)
{
    tap_front_cuda.stop(20000);
    tap_plan.flight_bytes = 0;
    client_flight_facts(&b->l.flight, b->l.mode.flight_mib, b->l.opt.writer);
    bench_read(b);
    check_balance(b);
}

/* Steps 2 and 3 are in the sample, the others fly. */
static void fly(void *exec, unsigned until)
{
    unsigned seed;

    assert_false(step(exec, 1));
    tap_front_cuda.tick();
    for (seed = 2; seed < until; seed++)
        assert_true(step(exec, seed));
}

static void be_idle(struct bench *b)
{
    int i;

    for (i = 0; i < 15; i++) {
        usleep(20000);
        tap_front_cuda.tick();
        while (client_drain(&b->l, b->lk))
            ;
    }
}

static size_t from_flight(const struct bench *b)
{
    size_t i, n = 0;

    for (i = 0; i < b->n_ops; i++)
        n += td_json_get_str(b->ops[i].extra, "flight", NULL) != NULL;
    return n;
}

/* A row of the input of a step is no number: what flew is dumped, with the values that it had. */
static void what_flew_is_dumped(void **state)
{
    void *exec = capture(ROWS);
    struct bench b;
    unsigned seed;

    (void)state;
    arm_flight(&b);
    fly(exec, BAD);
    fill(BAD);
    ((uint16_t *)buffer[0])[K] = NAN_HALF;
    assert_int_equal(cudaGraphLaunch(exec, gpu_stream), 0);
    cu.stream_synchronize(gpu_stream);
    be_idle(&b);
    disarm_flight(&b);
    assert_int_equal(b.n_ops, (TAKEN + FLOWN + 1) * TWIN_LAYERS);
    assert_int_equal(from_flight(&b), (FLOWN + 1) * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "flight.kept"), 1);
    for (seed = 2; seed < BAD; seed++)
        check_ops(&b, (seed - 2) * TWIN_LAYERS, ROWS, seed);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* Nothing goes wrong: nothing is kept but the sample, and all else is counted. */
static void what_is_not_dumped_is_counted(void **state)
{
    void *exec = capture(ROWS);
    struct bench b;

    (void)state;
    arm_flight(&b);
    fly(exec, BAD);
    be_idle(&b);
    disarm_flight(&b);
    assert_int_equal(b.n_ops, TAKEN * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.flight"), FLOWN * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), TWIN_LAYERS); /* before there was a twin */
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_flew_is_dumped),
        cmocka_unit_test(what_is_not_dumped_is_counted),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
