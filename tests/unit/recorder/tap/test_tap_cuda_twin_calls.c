/* test_tap_cuda_twin_calls.c - what recording from twins costs the thread that launches: calls of the driver, which do not grow with the ops of a step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Counts, not times. With them comes what one copy for all ops must not break: their bytes where the ring ends, a copy that the driver refuses, weights that have
 * changed. */
#define TWIN_LAYERS 40
#define TWIN_ROWS 512
#include "twin_server.h"

#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_step_finder.h"

enum { FEW = 3, ROWS = TWIN_ROWS, REFUSED = 999, MOST_BYTES = 4 << 20 };

static int (*real_alloc)(uint64_t *at, size_t bytes);

static void *capture_layers(int n, int m)
{
    int l;

    begin_capture();
    for (l = 0; l < n; l++)
        layer_on(capture_stream, l, m);
    return end_capture();
}

static void drain(struct bench *b)
{
    int i;

    for (i = 0; b && i < 20; i++) {
        while (client_drain(&b->l, b->lk))
            ;
        usleep(2000);
    }
}

/* A step that the recorder reads; true: a twin ran. */
static bool read_step(struct bench *b, void *exec, unsigned seed)
{
    const bool twin = step(exec, seed);

    drain(b);
    return twin;
}

/* An arm in which the recorder has read four steps that a twin ran, of seeds 2 to 5. */
static void arm_and_read(struct bench *b, void *exec)
{
    unsigned seed;

    arm(b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    for (seed = 2; seed < 6; seed++)
        assert_true(read_step(b, exec, seed));
}

/* A step; the calls of the driver that its launch became, that of the launch itself too. */
static uint64_t calls_of_step(struct bench *b, void *exec, bool *twin)
{
    uint64_t before, calls;

    fill(1);
    before = say->calls_here();
    assert_int_equal(cudaGraphLaunch(exec, gpu_stream), 0);
    calls = say->calls_here() - before;
    cu.stream_synchronize(gpu_stream);
    drain(b);
    *twin = *launched != exec;
    return calls;
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

/* The first steps bring the weights. */
static uint64_t calls_of_recorded_step(int layers)
{
    void *exec = capture_layers(layers, 4);
    uint64_t calls, again;
    struct bench b;
    bool twin;
    int i;

    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    for (i = 0; i < 4; i++)
        assert_true(read_step(&b, exec, 1));
    calls = calls_of_step(&b, exec, &twin);
    assert_true(twin);
    again = calls_of_step(&b, exec, &twin);
    assert_true(twin);
    disarm(&b);
    assert_int_equal(calls, again);
    check_some(&b, b.n_ops - (size_t)layers, 0, layers, 4, 1);
    bench_close(&b);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
    return calls;
}

static void a_recorded_step_is_some_calls(void **state)
{
    uint64_t few = calls_of_recorded_step(FEW), many = calls_of_recorded_step(TWIN_LAYERS);

    (void)state;
    assert_int_equal(few, many);
    /* Is it captured, which stream, which context; the launch; a copy, and an event behind it. And for the step before: wait for the event, copy to the host, say so. */
    assert_in_range(many, 1, 9);
}

static void another_step_is_a_few_checks(void **state)
{
    void *exec = capture_layers(TWIN_LAYERS, 4);
    unsigned i, launches = 0;
    uint64_t calls;
    struct bench b;
    bool twin;

    (void)state;
    assert_int_equal(calls_of_step(NULL, exec, &twin), 1); /* the tap sleeps */
    arm(&b, TAP_MODE_SAMPLE);
    for (i = 0; i < 20; i++) {
        calls = calls_of_step(&b, exec, &twin);
        if (twin || i < 8)             /* the step behind a recorded one hands that over */
            continue;
        assert_int_equal(calls, 3);    /* is it captured, which stream; the launch */
        launches++;
    }
    disarm(&b);
    assert_in_range(launches, 1, 12);
    assert_true(ledger(&b, "ops.dropped.sampling") >= launches * TWIN_LAYERS);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* The step finder, told of the ops of a graph one by one, and of all at once where none of them can begin a step. */
static void passing_is_as_one_by_one(void **state)
{
    unsigned seed = 1, i, n, tries, passed = 0;

    (void)state;
    for (tries = 0; tries < 100000; tries++) {
        struct tap_gpu_step_finder each = {.first = 1 + rand_r(&seed) % 8, .others_before = 100, .launches = rand_r(&seed) % 9, .gap = rand_r(&seed) % 40,
                                           .again = rand_r(&seed) % 3}, at_once;
        uint64_t weights[4], others = 100;
        bool waiting = rand_r(&seed) % 2, fits = true;

        each.gap_at = each.gap ? 1 + rand_r(&seed) % 8 : 0;
        at_once = each;
        n = rand_r(&seed) % 5;
        for (i = 0; i < n; i++) {
            weights[i] = 1 + rand_r(&seed) % 8;
            fits = fits && weights[i] != each.first && weights[i] != each.gap_at && (each.gap_at || !i || weights[i] != weights[0]);
        }
        if (!fits)
            continue;
        for (i = 0; i < n; i++)
            assert_int_equal(tap_gpu_step_finder_note(&each, weights[i], others, waiting), TAP_GPU_STEP_WITHIN);
        tap_gpu_step_finder_pass(&at_once, n, n ? weights[0] : 0);
        assert_memory_equal(&each, &at_once, offsetof(struct tap_gpu_step_finder, again) + sizeof each.again);
        passed++;
    }
    assert_true(passed > 10000);
}

/* The ops of a step lie in two pieces then. */
static void the_ring_ends_within_a_step(void **state)
{
    const unsigned layers = 9, steps = 9;
    void *exec = capture_layers((int)layers, ROWS);
    uint64_t copies;
    unsigned seed;
    struct bench b;

    (void)state;
    arm_and_read(&b, exec);
    copies = say->calls("cuMemcpyDtoDAsync_v2");
    for (seed = 6; seed < 6 + steps; seed++)
        assert_true(read_step(&b, exec, seed));
    copies = say->calls("cuMemcpyDtoDAsync_v2") - copies;
    disarm(&b);
    assert_in_range(copies, steps + 1, steps + 4);
    assert_int_equal(ledger(&b, "ops.dropped.ring"), 0);
    for (seed = 6; seed < 6 + steps; seed++)
        check_some(&b, b.n_ops - (size_t)(6 + steps - seed) * layers, 0, (int)layers, ROWS, seed);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* While the recorder reads nothing, most of a step waits in the stage's ring, in one copy of which some ops are sent. */
static void what_waits_is_not_overwritten(void **state)
{
    const int layers = 9;
    void *exec = capture_layers(layers, ROWS);
    unsigned seed;
    struct bench b;

    (void)state;
    arm_and_read(&b, exec);
    for (seed = 6; seed < 12; seed++) {
        assert_true(step(exec, seed));
        usleep(20000);
    }
    drain(&b);
    disarm(&b);
    assert_true(ledger(&b, "ops.dropped.ring") > 0);
    check_some(&b, (size_t)(4 * layers), 0, layers, ROWS, 6);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* A step waits to be sent, and its graph is gone; those that are captured now take its places in the tap's table, and those of the tests before this one. */
static void what_waits_outlives_its_graph(void **state)
{
    const int layers = 9;
    void *exec = capture_layers(layers, ROWS), *next[8];
    unsigned i;
    struct bench b;

    (void)state;
    arm_and_read(&b, exec);
    assert_true(step(exec, 6));
    usleep(20000);                     /* the recorder's ring is full now */
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
    for (i = 0; i < 8; i++)
        next[i] = capture_layers(TWIN_LAYERS, 4);
    drain(&b);
    disarm(&b);
    assert_int_equal(b.n_ops, 5 * layers);
    check_some(&b, (size_t)(4 * layers), 0, layers, ROWS, 6);
    bench_close(&b);
    for (i = 0; i < 8; i++)
        cudaGraphExecDestroy(next[i]);
}

static int refuse_copy(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    (void)to, (void)from, (void)bytes, (void)stream;
    return REFUSED;
}

/* The server's step is computed; its ops are counted, and the next step is recorded again. */
static void a_refused_copy_is_counted(void **state)
{
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream) = tap_driver.copy_on_device;
    void *exec = capture_layers(FEW, 4);
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    for (i = 0; i < 4; i++)
        assert_true(read_step(&b, exec, 2));
    tap_driver.copy_on_device = refuse_copy;
    assert_true(read_step(&b, exec, 3));
    assert_int_equal(peek_last_error(), 0);
    tap_driver.copy_on_device = copy;
    assert_true(read_step(&b, exec, 4));
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), FEW);
    assert_int_equal(b.n_ops, 5 * FEW);
    check_some(&b, b.n_ops - 2 * FEW, 0, FEW, 4, 2);
    check_some(&b, b.n_ops - FEW, 0, FEW, 4, 4);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* The sample of the weights comes by the twin, of each launch anew. */
static void changed_weights_are_seen(void **state)
{
    uint16_t *changes = (uint16_t *)w[1] + K * K / 2;
    void *exec = capture_layers(FEW, 4);
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    step(exec, 1);
    tap_front_cuda.tick();
    for (i = 0; i < 4; i++)
        assert_true(read_step(&b, exec, 2));
    *changes ^= 1;
    assert_true(read_step(&b, exec, 3));
    *changes ^= 1;
    disarm(&b);
    assert_int_equal(b.n_ops, 5 * FEW - 1);
    assert_int_equal(ledger(&b, "ops.dropped.activations"), 1);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* So that the ring ends soon. */
static int alloc_little(uint64_t *at, size_t bytes)
{
    return bytes > MOST_BYTES ? REFUSED : real_alloc(at, bytes);
}

static int setup_little(void **state)
{
    if (setup(state))
        return -1;
    real_alloc = tap_driver.mem_alloc;
    tap_driver.mem_alloc = alloc_little;
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_step_is_some_calls), cmocka_unit_test(another_step_is_a_few_checks), cmocka_unit_test(passing_is_as_one_by_one), cmocka_unit_test(the_ring_ends_within_a_step),
        cmocka_unit_test(what_waits_is_not_overwritten), cmocka_unit_test(what_waits_outlives_its_graph), cmocka_unit_test(a_refused_copy_is_counted),     cmocka_unit_test(changed_weights_are_seen),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup_little, gpu_teardown);
}
