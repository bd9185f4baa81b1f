/* test_tap_cuda_gather.c - several copies in one launch of the tap's own kernel: what comes is what was there, and where the kernel is of no use copies
 * are made one by one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/gpu_copies.h"
#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_stage.h"

enum { MEMORY = 4 << 20 };

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

/* ---- pieces -------------------------------------------------------------------------------------------------------- */

struct shape { uint64_t rows, row_bytes, pitch; unsigned skew; };

static const struct shape shapes[] = {
    {1, 1, 1, 0}, {1, 32, 32, 4}, {1, 8192, 8192, 0}, {1, 8193, 8193, 0}, {1, 22016, 22016, 0}, {1, 22014, 22014, 2}, {3, 4096, 8192, 0}, {5, 100, 132, 4},
    {7, 30, 62, 2}, {200, 64, 96, 0}, {1, 1 << 20, 1 << 20, 0}, {513, 2048, 2048, 0}, {2, 1 << 20, 1 << 20, 0}, {300, 11008, 11008, 0}, {1, 16, 16, 1},
};

static void check_rows(const struct shape *s, const uint8_t *to, const uint8_t *from)
{
    uint64_t r;

    for (r = 0; r < s->rows; r++)
        assert_memory_equal(to + r * s->row_bytes, from + r * s->pitch, s->row_bytes);
    assert_int_equal(to[s->rows * s->row_bytes], 0xee);
}

static void check_shape(const struct shape *s, uint64_t from, uint64_t to)
{
    struct tap_gpu_copies c = {.n = 0};

    memset((void *)to, 0xee, MEMORY);
    assert_true(tap_gpu_copies_add(&c, to, from + s->skew, s->rows, s->row_bytes, s->pitch, gpu_stream));
    assert_true(tap_gpu_copies_launch(&c, gpu_stream));
    cu.stream_synchronize(gpu_stream);
    check_rows(s, (const uint8_t *)to, (const uint8_t *)from + s->skew);
}

static void every_shape_is_copied(void **state)
{
    uint64_t from = gpu_memory(MEMORY), to = gpu_memory(MEMORY);
    struct bench b;
    size_t i;

    (void)state;
    for (i = 0; i < MEMORY; i++)
        ((uint8_t *)from)[i] = (uint8_t)(i * 2654435761u >> 13);
    arm(&b);
    gpu_pass(1, 1);
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], from, to);
    disarm(&b);
    bench_close(&b);
    cu.mem_free(from);
    cu.mem_free(to);
}

/* More pieces than a launch takes: two launches; one of more than 1 MiB, and one that no allocation holds: by the driver, which refuses the last. */
static void pieces_go_together(void **state)
{
    uint64_t from = gpu_memory(MEMORY), to = gpu_memory(MEMORY), launches, copies;
    struct tap_gpu_copies c = {.n = 0};
    struct bench b;
    unsigned i;

    (void)state;
    arm(&b);
    gpu_pass(1, 1);
    launches = say->calls("td_gather"), copies = say->calls("cuMemcpyDtoDAsync_v2");
    for (i = 0; i < TAP_GPU_COPIES + 3; i++)
        assert_true(tap_gpu_copies_add(&c, to + 256 * i, from + 4 * i, 1, 100, 100, gpu_stream));
    assert_true(tap_gpu_copies_launch(&c, gpu_stream));
    assert_int_equal(say->calls("td_gather") - launches, 2);
    assert_int_equal(say->calls("cuMemcpyDtoDAsync_v2"), copies);
    assert_true(tap_gpu_copies_launch(&c, gpu_stream));
    assert_int_equal(say->calls("td_gather") - launches, 2);
    assert_true(tap_gpu_copies_add(&c, to, from, 1, (1 << 20) + 1, 0, gpu_stream));
    assert_int_equal(say->calls("cuMemcpyDtoDAsync_v2") - copies, 1);
    assert_false(tap_gpu_copies_add(&c, to, from + MEMORY - 8, 1, 16, 16, gpu_stream));
    assert_false(tap_gpu_copies_add(&c, to, 64, 1, 16, 16, gpu_stream));
    assert_int_equal(c.n, 0);
    disarm(&b);
    bench_close(&b);
    cu.mem_free(from);
    cu.mem_free(to);
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

/* Two passes; the same bytes each time, however they came. Calls of the driver for each op: *gathers, *copies. */
static void record_two(uint64_t *gathers, uint64_t *copies)
{
    const int n = layer[LAYERS - 1].n;
    uint8_t a[K * 2], c[MAX_ROWS * 2];
    struct bench b;
    int i;

    arm(&b);
    gpu_pass(1, 1);                   /* weights go over */
    *gathers = say->calls("td_gather"), *copies = say->calls("cuMemcpyDtoDAsync_v2");
    gpu_pass(1, 2);
    *gathers = say->calls("td_gather") - *gathers, *copies = say->calls("cuMemcpyDtoDAsync_v2") - *copies;
    cu.stream_synchronize(gpu_stream);
    memcpy(a, (void *)dev_a, sizeof a);
    memcpy(c, (void *)dev_c, (size_t)n * 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    for (i = LAYERS; i < 2 * LAYERS; i++)
        check_blob(&b, td_op_rec_in(&b.ops[i], "a"), a, sizeof a);
    check_blob(&b, &b.ops[2 * LAYERS - 1].out, c, (size_t)n * 2);
    bench_close(&b);
}

static void two_launches_an_op(void **state)
{
    uint64_t gathers, copies;

    (void)state;
    record_two(&gathers, &copies);
    assert_int_equal(gathers, 2 * LAYERS);
    assert_int_equal(copies, 0);
}

/* A driver without one of the functions; one that compiles nothing; a kernel that copies wrongly. */
static void without_it_copies_are_single(void **state)
{
    struct tap_gpu_driver whole = tap_driver;
    uint64_t gathers, copies, i;

    (void)state;
    for (i = 0; i < 3; i++) {
        tap_gpu_stage_forget();
        tap_driver.launch = i == 0 ? NULL : whole.launch;
        if (i == 1)
            say->fault("load", 1, TD_CUDA_INVALID_IMAGE);
        if (i == 2)
            say->fault("gather", 1, 1);
        record_two(&gathers, &copies);
        assert_int_equal(gathers, 0);
        assert_int_equal(copies, 5 * LAYERS);
    }
    tap_driver = whole;
    tap_gpu_stage_forget();
    record_two(&gathers, &copies);
    assert_int_equal(gathers, 2 * LAYERS);
}

/* The server's own launch goes on, the op is counted. */
static void a_refused_gather_is_counted(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    gpu_pass(1, 1);
    say->fault("launch", 1, TD_CUDA_LAUNCH_OUT_OF_RESOURCES); /* before it */
    assert_int_equal(gpu_launch(&layer[0], 0, 1, 1), 0);
    gpu_others(1);
    say->fault("launch", 3, TD_CUDA_LAUNCH_OUT_OF_RESOURCES); /* behind it */
    assert_int_equal(gpu_launch(&layer[0], 0, 1, 1), 0);
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.ring") + ledger(&b, "ops.dropped.failed"), 2);
    bench_close(&b);
}

/* What the tap launches is none of the server's launches. */
static void it_is_not_in_the_ledger(void **state)
{
    uint64_t all = say->calls("cuLaunchKernel") + say->calls("cuLaunchKernelEx"), own = say->calls("td_gather") + say->calls("td_gather_waits") + say->calls("td_cache_rows");
    struct bench b;

    (void)state;
    tap_gpu_stage_forget();
    arm(&b);
    gpu_pass(1, 1);                   /* the kernels are tried now: nothing was open before */
    gpu_pass(1, 2);
    disarm(&b);
    all = say->calls("cuLaunchKernel") + say->calls("cuLaunchKernelEx") - all, own = say->calls("td_gather") + say->calls("td_gather_waits") + say->calls("td_cache_rows") - own;
    assert_int_equal(own, 2 * 2 * LAYERS + 2 + 3);
    assert_int_equal(ledger(&b, "launches.seen"), all - own);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_copied),
        cmocka_unit_test(pieces_go_together),
        cmocka_unit_test(two_launches_an_op),
        cmocka_unit_test(without_it_copies_are_single),
        cmocka_unit_test(a_refused_gather_is_counted),
        cmocka_unit_test(it_is_not_in_the_ledger),
    };

    return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
