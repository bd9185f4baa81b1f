/* test_judge_runs.c - of several runs the worst one has to keep the limits.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "replayer/judge_runs.h"

enum { M = 2, N = 4, RUNS = 3 };

static double r[M * N], mag[M * N];
static float image[RUNS][M * N];
static const struct td_op_ref ref = {.rows = M, .cols = N, .inner = 1, .r0 = r, .r1 = r, .mag = mag};
static const struct td_tensor out = {.dtype = TD_DT_F32, .ndim = 2, .shape = {M, N}, .strides = {N, 1}, .size_bytes = sizeof image[0]};
static const struct td_judge_limits lim = {.u_out = 0.001, .floor = 4};
static struct td_judge_result res;

static void start(void)
{
    for (int i = 0; i < M * N; i++) {
        r[i] = 1;
        for (int k = 0; k < RUNS; k++)
            image[k][i] = 1;
    }
    image[0][1] = image[1][1] = image[2][1] = 1.001f; /* a score of 1 in each run */
}

static void judge(int runs)
{
    const void *const images[RUNS] = {image[0], image[1], image[2]};
    struct td_error err = {0};

    assert_int_equal(td_judge_runs(&ref, &out, images, runs, &lim, &res, &err), 0);
}

static void test_all_alike(void **state)
{
    (void)state;
    start();
    judge(RUNS);
    assert_true(fabs(res.score - 1) < 1e-3);
    assert_int_equal(res.worst_run, 0);
    assert_int_equal(res.unstable, 0);
}

static void test_a_later_run_is_worse(void **state)
{
    double rms;

    (void)state;
    start();
    judge(RUNS);
    rms = sqrt((double)res.slices.sum[TD_SUM_EE][0]);
    for (int j = 0; j < N; j++)
        image[2][N + j] = 1.01f; /* the second row, ten times as far */
    judge(RUNS);
    assert_true(fabs(res.score - 10) < 1e-2);
    assert_int_equal(res.worst_run, 2);
    assert_int_equal(res.worst_row.i, 1);
    assert_true(fabs(res.worst_row.rms - 10) < 1e-2);
    assert_true(res.worst_col.rms > 7 && res.worst_tile.rms > 7);
    assert_true(fabs(res.max_abs - 0.01) < 1e-5);
    assert_int_equal(res.repeats, RUNS);
    assert_int_equal(res.unstable, N);
    assert_int_equal(res.odd_runs, 1);
    assert_true(sqrt((double)res.slices.sum[TD_SUM_EE][0]) == rms); /* means are the first run's */
    judge(2); /* without it */
    assert_true(fabs(res.score - 1) < 1e-3);
}

static void test_a_later_run_is_better(void **state)
{
    (void)state;
    start();
    image[0][0] = 1.02f;
    judge(RUNS);
    assert_true(fabs(res.score - 20) < 1e-2);
    assert_int_equal(res.worst_run, 0);
}

static void test_counts_of_one_run_stay_together(void **state)
{
    (void)state;
    start();
    image[0][0] = image[0][1] = 0;
    image[1][2] = NAN;
    image[2][3] = INFINITY;
    judge(RUNS);
    assert_true(isinf(res.score));
    assert_int_equal(res.nan, 1);
    assert_int_equal(res.inf, 0);
    assert_int_equal(res.zero, 0);
    start();
    for (int i = 0; i < M * N; i++)
        image[1][i] = 0;
    judge(RUNS);
    assert_int_equal(res.zero, res.total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_alike), cmocka_unit_test(test_a_later_run_is_worse),
                                       cmocka_unit_test(test_a_later_run_is_better), cmocka_unit_test(test_counts_of_one_run_stay_together)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
