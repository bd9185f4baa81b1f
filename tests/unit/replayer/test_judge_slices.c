/* test_judge_slices.c - the sums over slices against sums of single elements.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "replayer/judge.h"
#include "replayer/judge_slices.h"

#define MOST_COLS 300

static double e_of(int64_t i, int64_t j) { return sin((double)(i * 37 + j * 11)) * (double)(1 + j % 5); }
static double x_of(int64_t i, int64_t j) { return cos((double)(i * 5 + j * 3)) * 2000; }

/* Is element (i, j) in slice s? In the words of the header. */
static bool holds(const struct td_slices_layout *l, int64_t rows, int64_t cols, int s, int64_t i, int64_t j)
{
    if (s == 0)
        return true;
    if (s < l->rows.first)
        return j % 64 == s - 1;
    if (s < l->col_tails.first)
        return i % 16 == s - l->rows.first;
    if (s < l->row_tails.first) {
        const int64_t tile = 1 << (s - l->col_tails.first), rest = cols % tile ? cols % tile : tile;

        return j >= cols - rest;
    }
    const int64_t tile = 1 << (s - l->row_tails.first), rest = rows % tile ? rows % tile : tile;

    return i >= rows - rest;
}

static void check_size(int64_t rows, int64_t cols)
{
    struct td_judge_slices s;
    struct td_slices got;
    struct td_slices_layout l;
    int64_t i, j;
    int n, k;

    assert_int_equal(td_judge_slices_init(&s, rows, cols, NULL), TD_OK);
    for (i = 0; i < rows; i++) {
        double r1[MOST_COLS];

        for (j = 0; j < cols; j++) {
            const double denom = 0.25 + (double)(j % 3);

            td_judge_slices_put(&s, j, e_of(i, j) * denom, denom);
            r1[j] = x_of(i, j) * denom;
        }
        td_judge_slices_end_row(&s, i, r1);
    }
    td_judge_slices_take(&s, &got);
    td_judge_slices_release(&s);
    td_slices_layout_of(rows, cols, TD_SLICES_FIRST_TAIL, &l);
    assert_true(got.rows == rows && got.cols == cols);
    for (n = 0; n < l.n; n++) {
        double want[TD_SLICE_SUMS] = {0};

        for (i = 0; i < rows; i++)
            for (j = 0; j < cols; j++)
                if (holds(&l, rows, cols, n, i, j)) {
                    const double e = e_of(i, j), x = x_of(i, j);

                    want[TD_SUM_E] += e;
                    want[TD_SUM_EX] += e * x;
                    want[TD_SUM_XX] += x * x;
                    want[TD_SUM_EE] += e * e;
                }
        for (k = 0; k < TD_SLICE_SUMS; k++)
            assert_true(fabs((double)got.sum[k][n] - want[k]) <= 1e-6 * (1 + fabs(want[k])));
    }
}

static void sums_are_those_of_elements(void **state)
{
    static const int64_t SIZES[][2] = {{1, 1}, {1, 63}, {1, 64}, {1, 65}, {2, 130}, {17, 200}, {129, 256}, {300, 7}, {16, 300}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        check_size(SIZES[i][0], SIZES[i][1]);
}

/* The judge's own sums: one column in four of a product is 0.1 % too large. */
#define ROWS 3
#define COLS 128
struct product { double r[ROWS * COLS], mag[ROWS * COLS]; float c[ROWS * COLS]; struct td_op_ref ref; struct td_tensor out; };

static void product_init(struct product *p)
{
    int e;

    memset(p, 0, sizeof *p);
    for (e = 0; e < ROWS * COLS; e++) {
        p->r[e] = (e % 7 - 3) * 0.5 + 0.125;
        p->mag[e] = 8;
        p->c[e] = (float)(p->r[e] * (e % 4 == 1 ? 1.001 : 1));
    }
    p->ref = (struct td_op_ref){.rows = ROWS, .cols = COLS, .inner = 64, .r0 = p->r, .r1 = p->r, .mag = p->mag};
    p->out = (struct td_tensor){.role = "c", .dtype = TD_DT_F32, .ndim = 2, .shape = {ROWS, COLS}, .strides = {COLS, 1}, .size_bytes = sizeof p->c};
}

static struct td_judge_result judge(const struct product *p)
{
    const void *image = p->c;
    struct td_judge_limits lim;
    struct td_judge_result res;

    assert_int_equal(td_judge_limits_find("gemm", TD_DT_F32, &lim, NULL), TD_OK);
    assert_int_equal(td_judge_output(&p->ref, &p->out, &image, 1, &lim, &res, NULL), TD_OK);
    return res;
}

static double slope(const struct td_slices *s, int slice)
{
    return (double)s->sum[TD_SUM_EX][slice] / (double)s->sum[TD_SUM_XX][slice];
}

static void judge_keeps_them(void **state)
{
    struct product p;
    struct td_judge_result r;
    int c;

    (void)state;
    product_init(&p);
    r = judge(&p);
    assert_true(r.slices.rows == ROWS && r.slices.cols == COLS);
    for (c = 0; c < 64; c++)
        assert_true(fabs(slope(&r.slices, 1 + c) - (c % 4 == 1 ? 1e-3 : 0)) < 1e-6);
    assert_true(sqrt((double)r.slices.sum[TD_SUM_EE][0] / (ROWS * COLS)) <= r.score);
}

static void not_of_what_is_not_finite_or_not_judged(void **state)
{
    unsigned char unjudged[ROWS] = {0, 1, 0};
    struct product p;

    (void)state;
    product_init(&p);
    p.c[5] = NAN;
    assert_int_equal(judge(&p).slices.rows, 0);
    p.c[5] = INFINITY;
    assert_int_equal(judge(&p).slices.rows, 0);
    product_init(&p);
    p.ref.unjudged = unjudged;
    assert_int_equal(judge(&p).slices.rows, 0);
    p.ref.unjudged = NULL;
    p.ref.ordered = p.mag; /* held against r1, since it was not added in this order */
    assert_int_equal(judge(&p).slices.rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_elements),
        cmocka_unit_test(judge_keeps_them),
        cmocka_unit_test(not_of_what_is_not_finite_or_not_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
