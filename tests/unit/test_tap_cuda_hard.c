/* test_tap_cuda_hard.c - what a server may do to the tap's CUDA front end: streams, handles and memory that are used again, a device that is full or
 * reset, a driver that stands still.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "model/exllama_layout.h"
#include "recorder/tap/tap_cuda.h"

enum { WORDS = K / 8 * 32 * LAYERS, OUT_OF_MEMORY = 2 };

static char folder[] = "/tmp/td-hard-XXXXXX";
int InitializeInjection(void);

static int setup(void **state)
{
    (void)state;
    setenv("TD_TAP_DIR", "/nonexistent", 1);
    if (!mkdtemp(folder) || !gpu_open(folder))
        return -1;
    return InitializeInjection() != 1;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(folder, NULL);
}

static void arm(struct bench *b)
{
    bench_open(b, TAP_MODE_ALL);
    assert_null(tap_front_cuda.start());
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    bench_read(b);
}

static int64_t balance(const struct bench *b)
{
    static const char *const why[] = {"sampling", "budget", "ring", "threads", "weights", "partial", "failed", "recorder", "unreadable", "graph"};
    int64_t n = ledger(b, "ops.kept");
    size_t i;

    for (i = 0; i < sizeof why / sizeof *why; i++) {
        char name[64];

        snprintf(name, sizeof name, "ops.dropped.%s", why[i]);
        n += ledger(b, name);
    }
    return n;
}

/* ---- streams ------------------------------------------------------------------------------------------------------- */

/* All streams, the newest first. */
static void *finish_later(void *unused)
{
    (void)unused;
    cu.ctx_set_current(gpu_context);
    usleep(300000);
    cu.ctx_synchronize();
    return NULL;
}

/* Launches on one stream that is far behind, then a capture and a launch on another: what the first computed is waited for all the same. */
static void a_slow_stream_is_waited_for(void **state)
{
    uint8_t a[K * 2], c[32 * 2];
    void *first = gpu_stream, *other, *graph;
    pthread_t t;
    struct bench b;

    (void)state;
    arm(&b);
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0); /* the newest */
    gpu_pass(1, 1);
    gpu_others(20);
    memset((void *)dev_c, 0, 32 * 2);
    gpu_activations(1, 5);
    say->use_thread(false);
    gpu_gemm(&layer[0], 1);
    gpu_stream = other;
    cu.stream_begin_capture(other, 0);
    gpu_launch(&layer[2], 0, 1, 1);
    assert_int_equal(cu.stream_end_capture(other, &graph), 0);
    dev_c += 4096;
    gpu_launch(&layer[1], 0, 1, 1);
    dev_c -= 4096;
    gpu_stream = first;
    pthread_create(&t, NULL, finish_later, NULL);
    disarm(&b);
    pthread_join(t, NULL);
    say->use_thread(true);
    memcpy(a, (void *)dev_a, sizeof a);
    memcpy(c, (void *)dev_c, sizeof c);
    assert_int_equal(b.n_ops, LAYERS + 2);
    check_blob(&b, td_op_rec_in(&b.ops[LAYERS], "a"), a, sizeof a);
    check_blob(&b, &b.ops[LAYERS].out, c, sizeof c);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    assert_int_equal(ledger(&b, "ops.seen"), balance(&b));
    bench_close(&b);
    cu.stream_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_stream_is_waited_for),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
