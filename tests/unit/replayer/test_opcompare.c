/* test_opcompare.c - ops without a reference: equal, departing, NaN for a number, not written.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replayer/opitem.h"

#define N 8
static float recorded[N], image[3][N], base[N];
static struct td_op_item it;

static void start(void)
{
    int i;

    memset(&it, 0, sizeof it);
    it.status = TD_OP_OK;
    it.call.out = (struct td_tensor){.role = "c", .dtype = TD_DT_F32, .ndim = 2, .shape = {2, 4}, .strides = {4, 1}, .size_bytes = sizeof recorded};
    it.recorded = recorded;
    it.equal = -1;
    it.candidate.repeats = 3;
    for (i = 0; i < N; i++)
        recorded[i] = image[0][i] = image[1][i] = image[2][i] = base[i] = (float)(i + 1);
    for (i = 0; i < 3; i++)
        it.candidate.images[i] = image[i];
}

static void compare(void)
{
    struct td_error err = {0};

    assert_int_equal(td_op_compare(&it, &err), TD_OK);
    assert_true(it.compared.done);
    assert_int_equal(it.compared.total, N);
}

static void test_equal_and_departing(void **state)
{
    (void)state;
    start();
    compare();
    assert_int_equal(it.equal, N);
    assert_true(it.compared.departs == 0);
    assert_int_equal(it.compared.baseline_equal, -1);
    assert_true(isnan(it.compared.baseline_departs));
    start();
    image[0][1] = 5; /* off by 3; |recorded|^2 = 204 */
    image[1][1] = image[2][1] = 5;
    it.baseline.repeats = 1;
    it.baseline.images[0] = base;
    base[1] = 5;
    compare();
    assert_int_equal(it.equal, N - 1);
    assert_true(fabs(it.compared.departs - 3 / sqrt(204)) < 1e-12);
    assert_int_equal(it.compared.baseline_equal, N);
    assert_true(it.compared.baseline_departs == 0);
    assert_int_equal(it.status, TD_OP_OK);
}

static void test_unstable(void **state)
{
    (void)state;
    start();
    image[2][7] = 9;
    image[1][3] = -1;
    compare();
    assert_int_equal(it.compared.unstable, 2);
}

static void test_nan_where_a_number_was(void **state)
{
    (void)state;
    start();
    image[0][2] = image[1][2] = image[2][2] = NAN;
    compare();
    assert_int_equal(it.status, TD_OP_FAILED);
    assert_non_null(strstr(it.reason, "1 of 8"));
    assert_true(isinf(it.compared.departs));
    start(); /* a mask may hold -Inf, and does so in both */
    recorded[2] = image[0][2] = image[1][2] = image[2][2] = -INFINITY;
    compare();
    assert_int_equal(it.status, TD_OP_OK);
    start(); /* the baseline build gives it too */
    image[0][2] = image[1][2] = image[2][2] = base[2] = NAN;
    it.baseline.repeats = 1;
    it.baseline.images[0] = base;
    compare();
    assert_int_equal(it.status, TD_OP_OK);
}

static void test_left_unwritten(void **state)
{
    float poison[N];
    int r;

    (void)state;
    start();
    for (r = 0; r < 3; r++) {
        td_poison_fill(TD_DT_F32, r, poison, sizeof poison);
        image[r][6] = poison[6];
    }
    compare();
    assert_int_equal(it.status, TD_OP_FAILED);
    assert_non_null(strstr(it.reason, "unwritten"));
}

static void test_blocks_have_no_values(void **state)
{
    static unsigned char was[68], now[68];

    (void)state;
    start();
    it.call.out = (struct td_tensor){.role = "c", .dtype = TD_DT_Q8_0, .ndim = 1, .shape = {2}, .strides = {1}, .size_bytes = 68};
    it.recorded = was;
    it.candidate.repeats = 1;
    it.candidate.images[0] = now;
    now[40] = 1;
    assert_int_equal(td_op_compare(&it, NULL), TD_OK);
    assert_int_equal(it.compared.total, 2);
    assert_int_equal(it.equal, 1);
    assert_true(it.compared.departs == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_and_departing),
        cmocka_unit_test(test_unstable),
        cmocka_unit_test(test_nan_where_a_number_was),
        cmocka_unit_test(test_left_unwritten),
        cmocka_unit_test(test_blocks_have_no_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
