/* test_judge_row.c - rows judged at once against the same elements one by one: each figure is the same, bit for bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/ops/dot_f32.h"
#include "replayer/judge.h"
#include "replayer/poison.h"
#include "tests/unit/random_gptq.h"

#define ROWS 11
#define COLS 203
#define IMAGES 3

static uint64_t seed = 3;

static double draw(void)
{
    return (double)(random_u32(&seed) >> 8) / 8388608.0 - 1;
}

struct example {
    struct td_op_ref ref;
    double r0[ROWS * COLS], r1[ROWS * COLS], mag[ROWS * COLS], slack[ROWS * COLS];
    float values[IMAGES][ROWS * COLS];
};

static void make(struct example *x, bool own_r1, bool slack)
{
    memset(x, 0, sizeof *x);
    x->ref = (struct td_op_ref){.rows = ROWS, .cols = COLS, .inner = 640, .r0 = x->r0, .r1 = own_r1 ? x->r1 : x->r0, .mag = x->mag,
                                .slack = slack ? x->slack : NULL};
    for (int e = 0; e < ROWS * COLS; e++) {
        x->r0[e] = 10 * draw();
        x->r1[e] = x->r0[e] + 0.01 * draw();
        x->mag[e] = 20 + draw();
        x->slack[e] = e % 7 ? 0.001 : 0;
        for (int i = 0; i < IMAGES; i++)
            x->values[i][e] = (float)(x->r0[e] + 0.02 * draw());
        for (int i = 1; i < IMAGES && e / COLS % 2; i++)
            x->values[i][e] = x->values[0][e];
    }
    x->r0[30] = x->r1[30] = 0;
    x->values[0][31] = 0;
}

/* Judge the example with its elements `step` apart. */
static void judge(const struct example *x, enum td_dtype dtype, int64_t step, int n, struct td_judge_result *res)
{
    const size_t count = (size_t)(ROWS * COLS * step), w = td_dtype_size(dtype);
    const struct td_tensor out = {.dtype = dtype, .ndim = 2, .shape = {ROWS, COLS}, .strides = {COLS * step, step}, .size_bytes = count * w};
    struct td_judge_limits lim;
    void *images[IMAGES];
    struct td_error err = {0};

    assert_int_equal(td_judge_limits_find("gptq_gemm", dtype, &lim, &err), 0);
    for (int i = 0; i < IMAGES; i++) {
        assert_non_null(images[i] = calloc(count, w));
        for (int64_t e = 0; e < ROWS * COLS; e++)
            td_store_f32(dtype, images[i], e * step, x->values[i][e]);
    }
    memset(res, 0, sizeof *res);
    assert_int_equal(td_judge_output(&x->ref, &out, (const void *const *)images, n, &lim, res, &err), 0);
    assert_int_equal(td_judge_equal(&x->ref, &out, images[0], images[0]), ROWS * COLS);
    res->total += 1000000 * td_judge_equal(&x->ref, &out, images[0], images[1]);
    for (int i = 0; i < IMAGES; i++)
        free(images[i]);
}

static void compare(const struct example *x, enum td_dtype dtype, int n)
{
    static struct td_judge_result fast, slow;

    judge(x, dtype, 1, n, &fast);
    judge(x, dtype, 2, n, &slow);
    assert_memory_equal(&fast, &slow, sizeof fast);
}

static void test_rows_are_their_elements(void **state)
{
    static const enum td_dtype types[] = {TD_DT_F16, TD_DT_BF16, TD_DT_F32};
    static struct example x;
    static struct td_judge_result res;

    (void)state;
    for (int i = 0; i < 12; i++) {
        make(&x, i & 1, i & 2);
        compare(&x, types[i % 3], i % 2 ? 1 : IMAGES);
    }
    judge(&x, TD_DT_F16, 1, IMAGES, &res);
    assert_true(res.score > 1 && res.unstable > 300 && res.zero >= 1 && res.ref_nonzero == ROWS * COLS - 1 && res.slices.rows == ROWS);
}

/* A row with one number that is not finite is judged one by one; the others are not. */
static void test_numbers_that_are_not_finite(void **state)
{
    static struct example x;

    (void)state;
    for (int i = 0; i < 5; i++) {
        make(&x, i & 1, false);
        if (i == 0)
            x.values[0][5 * COLS + 7] = NAN;
        else if (i == 1)
            x.values[0][5 * COLS + 202] = INFINITY;
        else if (i == 2)
            x.r0[5 * COLS] = -INFINITY;
        else if (i == 3)
            x.r1[10 * COLS + 100] = x.r0[10 * COLS + 100] = NAN;
        else
            x.mag[COLS + 3] = INFINITY;
        compare(&x, TD_DT_F16, IMAGES);
        compare(&x, TD_DT_F32, 1);
    }
}

/* What a run left unwritten, or added to, is found in the last column too. */
static void test_poison_in_a_row(void **state)
{
    const struct td_tensor out = {.dtype = TD_DT_F16, .ndim = 2, .shape = {ROWS, COLS}, .strides = {COLS, 1}, .size_bytes = ROWS * COLS * 2};
    static struct example x;
    uint16_t images[2][ROWS * COLS];
    const void *both[2] = {images[0], images[1]};
    struct td_poison_found f;

    (void)state;
    make(&x, false, false);
    for (int i = 0; i < 2; i++) {
        td_poison_fill(TD_DT_F16, i, images[i], sizeof images[i]);
        for (int64_t e = 0; e < ROWS * COLS; e++)
            if (e != 2 * COLS - 1 && e != 7 * COLS)
                td_store_f32(TD_DT_F16, images[i], e, x.values[i][e]);
    }
    images[0][9 * COLS + 5] = 0x7e01;
    td_poison_find(&x.ref, &out, both, 2, &f);
    assert_int_equal(f.unwritten, 2);
    assert_int_equal(f.not_cleared, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_their_elements), cmocka_unit_test(test_numbers_that_are_not_finite), cmocka_unit_test(test_poison_in_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
