/* test_tap_cuda_rest.c - between two windows of a sample the tap is not subscribed: what is seen is whole all the same, and what is not is said.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"

#define PATIENCE 4000                 /* passes until something has happened at the latest */

static void arm(struct bench *b, uint32_t mode)
{
    bench_open(b, mode);
    tap_plan.percent_ppm = 100000;     /* a window of 4 steps in 40 */
    tap_new_size_ns = 10000000;
    assert_null(tap_front_cuda.start());
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    bench_read(b);
    tap_new_size_ns = 5000000000LL;
}

/* One pass, and what the tap's thread does between two. */
static void pass(int m)
{
    static unsigned seed;

    gpu_pass(m, ++seed);
    tap_front_cuda.tick();
}

/* Passes until it is (not) subscribed; those that it was subscribed for. */
static int until(bool subscribed)
{
    int n = 0, watched = 0;

    while ((bool)cupti_subscribed() != subscribed && n++ < PATIENCE) {
        watched += cupti_subscribed();
        pass(1);
        if (!cupti_subscribed())
            usleep(1000);             /* a rest ends by the clock */
    }
    assert_int_equal((bool)cupti_subscribed(), subscribed);
    return watched;
}

static void between_windows_nothing_is_watched(void **state)
{
    struct bench b;
    int watched, rests;
    size_t i;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);
    watched = until(false);
    for (rests = 1; rests < 8; rests++) {
        until(true);
        watched += until(false);
    }
    until(true);
    disarm(&b);
    assert_int_equal(ledger(&b, "watch.rests"), rests);
    assert_true(ledger(&b, "watch.rested_ms") > 0);
    assert_int_equal(ledger(&b, "steps.seen"), watched);
    assert_int_equal(ledger(&b, "ops.seen"), watched * LAYERS);
    check_balance(&b);
    assert_true(b.n_steps >= (size_t)rests);
    assert_int_equal(b.n_ops, b.n_steps * LAYERS);
    for (i = 0; i < b.n_ops; i++)
        assert_int_equal(b.ops[i].step, b.steps[i / LAYERS].step);
    bench_close(&b);
}

/* The first two steps of a size are taken whatever the sample says, and nothing is missed for a while then: more that are new may come. */
static void a_new_size_ends_the_rests(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);
    until(false);
    until(true);
    tap_new_size_ns = 3600000000000LL;
    pass(3);
    for (i = 0; i < 100; i++) {
        pass(1);
        assert_true(cupti_subscribed());
    }
    tap_new_size_ns = 50000000;
    usleep(60000);
    until(false);
    disarm(&b);                       /* in the middle of a rest */
    check_balance(&b);
    bench_close(&b);
    arm(&b, TAP_MODE_SAMPLE);
    assert_true(cupti_subscribed());
    pass(1);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(ledger(&b, "watch.rests"), 0);
    bench_close(&b);
}

static void all_is_all(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 10; i++)
        pass(1);
    usleep(60000);
    for (i = 0; i < 100; i++) {
        pass(1);
        assert_true(cupti_subscribed());
    }
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.seen"), 110 * LAYERS);
    bench_close(&b);
}

/* It wakes between the two launches of a product: the second is no op of its own, though its weights begin the pass. */
static void half_an_op_is_none(void **state)
{
    struct bench b;
    size_t i;
    int l;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);
    until(false);
    gpu_others(20);
    gpu_activations(11, 5);
    gpu_launch(&layer[0], 0, 8, 8);
    usleep(300000);
    tap_front_cuda.tick();
    assert_true(cupti_subscribed());
    gpu_launch(&layer[0], 8, 3, 3);
    for (l = 1; l < LAYERS; l++) {
        gpu_others(3);
        gpu_gemm(&layer[l], 11);
    }
    cu.stream_synchronize(gpu_stream);
    disarm(&b);
    for (i = 0; i < b.n_ops; i++)
        assert_int_equal(td_op_rec_in(&b.ops[i], "a")->shape[0], 1);
    assert_int_equal(ledger(&b, "ops.dropped.partial"), LAYERS);
    check_balance(&b);
    bench_close(&b);
}

/* Another profiler comes while the tap rests: it is left in peace, the recorder is told, and the tap comes back when it has gone. */
static void the_place_is_taken_meanwhile(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);
    until(false);
    cupti_take("Nsight Systems");
    usleep(300000);
    for (i = 0; i < 20; i++)
        pass(1);
    assert_non_null(tap_front_cuda.trouble());
    assert_non_null(strstr(tap_front_cuda.trouble(), "in use by CUPTI for Nsight Systems"));
    cupti_take(NULL);
    usleep(1100000);
    tap_front_cuda.tick();
    assert_true(cupti_subscribed());
    assert_null(tap_front_cuda.trouble());
    disarm(&b);
    assert_true(ledger(&b, "watch.rested_ms") >= 1000);
    check_balance(&b);
    bench_close(&b);
}

static _Atomic int stop_computing;

static void *compute(void *unused)
{
    unsigned seed = 0;

    (void)unused;
    cu.ctx_set_current(gpu_context);
    while (!stop_computing)
        gpu_pass(1, ++seed);
    return NULL;
}

/* As in a server: the tap's thread goes its own way, and comes in the middle of a pass. */
static void it_rests_while_the_server_computes(void **state)
{
    struct bench b;
    pthread_t server;
    size_t i;
    int n;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);
    stop_computing = 0;
    pthread_create(&server, NULL, compute, NULL);
    for (n = 0; n < 1500; n++) {
        tap_front_cuda.tick();
        usleep(1000);
    }
    stop_computing = 1;
    pthread_join(server, NULL);
    disarm(&b);
    assert_true(ledger(&b, "watch.rests") > 1);
    assert_true(b.n_steps > 4);
    assert_true(b.n_ops >= (b.n_steps - 1) * LAYERS); /* the recorder's ring, which nobody empties here, may have ended in the last one */
    check_balance(&b);
    for (i = 0; i < b.n_ops; i++)     /* what is taken is whole, wherever a rest began or ended */
        assert_int_equal(b.ops[i].step, b.steps[i / LAYERS].step);
    bench_close(&b);
}

/* The tap's thread comes back when a rest is over, soon where one may begin, and seldom else. */
static void the_thread_comes_in_time(void **state)
{
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    pass(1);
    assert_int_equal(tap_front_cuda.tick_ms(), INT_MAX);
    disarm(&b);
    bench_close(&b);
    arm(&b, TAP_MODE_SAMPLE);
    pass(1);
    assert_in_range(tap_front_cuda.tick_ms(), 1, 10);
    usleep(150000);                    /* the server is idle, and may go on at any moment */
    assert_in_range(tap_front_cuda.tick_ms(), 1, 50);
    until(false);
    assert_in_range(tap_front_cuda.tick_ms(), 1, 251);
    disarm(&b);
    bench_close(&b);
}

/* Ten passes, all in windows; how many were taken. */
static size_t taken_in(uint32_t time_ppm)
{
    struct bench b;
    size_t taken;
    int i;

    bench_open(&b, TAP_MODE_SAMPLE);
    tap_plan.percent_ppm = 1000000;
    tap_plan.time_ppm = time_ppm;
    atomic_store(&tap_budget.time_used_until_ns, tap_now());
    assert_null(tap_front_cuda.start());
    for (i = 0; i < 10; i++) {
        gpu_pass(1, (unsigned)i);
        usleep(5000);
    }
    tap_front_cuda.stop(20000);
    bench_read(&b);
    tap_plan.time_ppm = 0;
    taken = b.n_steps;
    assert_int_equal(ledger(&b, "steps.dropped.budget"), 10 - taken);
    assert_int_equal(b.n_ops, taken * LAYERS);
    check_balance(&b);
    bench_close(&b);
    return taken;
}

/* Taking holds the thread that launches: a sample may be told how much of its time it gets. */
static void time_is_a_budget_too(void **state)
{
    (void)state;
    assert_int_equal(taken_in(1), 3);  /* two since the size is new, and one that is paid for seconds */
    assert_int_equal(taken_in(0), 10);
}

/* How often our thread that sends gave up its core so far. */
static long naps_so_far(void)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    long n = -1;

    assert_non_null(d);
    while (n < 0 && (e = readdir(d))) {
        char path[300], line[128];
        bool found = false;
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            found |= !strcmp(line, "Name:\ttapedeck-cuda\n");
            if (found)
                sscanf(line, "voluntary_ctxt_switches: %ld", &n);
        }
        if (f)
            fclose(f);
    }
    closedir(d);
    return n;
}

/* How often it does in 0.6 s in which nothing comes. */
static long naps_of(uint32_t mode)
{
    struct bench b;
    long before, after;

    arm(&b, mode);
    pass(1);
    usleep(150000);
    tap_front_cuda.tick();             /* what lies there is handed over */
    usleep(50000);
    before = naps_so_far();
    assert_true(before > 0);
    usleep(600000);
    after = naps_so_far();
    disarm(&b);
    bench_close(&b);
    return after - before;
}

/* It would take time from the server's threads, thousands of times a second. */
static void the_sender_sleeps_while_nothing_comes(void **state)
{
    (void)state;
    assert_in_range(naps_of(TAP_MODE_SAMPLE), 1, 300);
    assert_in_range(naps_of(TAP_MODE_ALL), 100, 700); /* a ring may fill up within milliseconds */
}

/* These tests tick themselves: the tap's own thread has gone to wait for a recorder before they arm. */
static int setup(void **state)
{
    int rc = gpu_setup(state);

    usleep(300000);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_windows_nothing_is_watched),
        cmocka_unit_test(a_new_size_ends_the_rests),
        cmocka_unit_test(all_is_all),
        cmocka_unit_test(half_an_op_is_none),
        cmocka_unit_test(the_place_is_taken_meanwhile),
        cmocka_unit_test(it_rests_while_the_server_computes),
        cmocka_unit_test(the_thread_comes_in_time),
        cmocka_unit_test(time_is_a_budget_too),
        cmocka_unit_test(the_sender_sleeps_while_nothing_comes),
    };

    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
