/* test_matrix_place.c - what the bad ops of a run have in common in the place of their errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/matrix_place.h"

#define MAX_OPS 256

static struct td_judged_op ops[MAX_OPS];
static struct td_op_over overs[MAX_OPS];
static struct td_judged_ops set = {.op = ops};

/* Add an op of m rows and n columns, bad ones of which are first .. last. first < 0: it is right. */
static void add(int64_t m, int64_t n, int64_t k, int64_t row_first, int64_t row_last,
                int64_t col_first, int64_t col_last)
{
    struct td_judged_op *op = &ops[set.n++];

    assert_true(set.n <= MAX_OPS);
    *op = (struct td_judged_op){.op = (int64_t)set.n, .kind = "gptq_gemm", .status = TD_OP_OK,
                                .m = m, .n = n, .k = k};
    op->result = row_first < 0 ? TD_RESULT_OK : TD_RESULT_WORSE;
    op->candidate = (struct td_op_error){.present = true, .score = 9};
    op->limit = 4;
    op->limit_runs = 2.5;
    if (row_first < 0)
        return;
    op->over = &overs[op - ops];
    *op->over = (struct td_op_over){
        .is_finite = true, .limit = 4,
        .rows = {row_last - row_first + 1, m, row_first, row_last, 0, -1, -1},
        .cols = {col_last - col_first + 1, n, col_first, col_last, 0, -1, -1}};
}

static void right(int64_t m, int64_t n, int64_t k)
{
    add(m, n, k, -1, -1, -1, -1);
}

static void expect(const char *words)
{
    struct td_buf b = TD_BUF_INIT(4096);

    td_matrix_place_add_words(&set, &b);
    assert_string_equal(td_buf_str(&b), words);
    td_buf_release(&b);
    memset(ops, 0, sizeof ops);
    set.n = 0;
}

/* One op with 27 bad rows of 28 proves nothing about its first row; many such ops do. */
static void test_all_but_the_first_rows(void **state)
{
    int i;

    (void)state;
    add(28, 256, 256, 1, 27, 0, 255);
    expect("everywhere: look along K");
    for (i = 0; i < 40; i++)
        add(2 + i % 27, 256, 256, 1, 1 + i % 27, 0, 255);
    expect("rows >= 1");
    for (i = 0; i < 40; i++)           /* one op has a bad first row */
        add(2 + i % 27, 256, 256, i != 7, 1 + i % 27, 0, 255);
    expect("everywhere: look along K");
}

/* The tail of a tile begins elsewhere in each shape. */
static void test_counted_from_the_end(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 12; i++)
        add(9, 256 + 72 * (i % 3) , 256, 0, 8, 248 + 72 * (i % 3), 255 + 72 * (i % 3));
    expect("the last 8 columns");
    for (i = 0; i < 12; i++)
        add(9, 264, 256, 0, 8, 256, 263);
    expect("columns >= 256");
}

/* Wherever N is another, K is summed up right. */
static void test_everywhere_of_one_n(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 4; i++) {
        add(1 + i, 96, 256, 0, i, 0, 95);
        right(1 + i, 384, 256);
    }
    expect("everywhere where N = 96, right where N = 384: look at the tiles of N");
    for (i = 0; i < 4; i++) {          /* another K is no witness */
        add(1 + i, 96, 640, 0, i, 0, 95);
        right(1 + i, 384, 256);
    }
    expect("everywhere: look along K");
    for (i = 0; i < 4; i++) {          /* nor are other rows */
        add(1 + i, 96, 256, 0, i, 0, 95);
        right(100 + i, 384, 256);
    }
    expect("everywhere: look along K");
    for (i = 0; i < 4; i++) {          /* the same N is right as well: of another layer */
        add(1 + i, 96, 256, 0, i, 0, 95);
        right(1 + i, 96, 256);
        right(1 + i, 384, 256);
    }
    expect("everywhere: look along K");
    for (i = 0; i < 4; i++) {          /* that N is not always right */
        add(1 + i, 96, 256, 0, i, 0, 95);
        add(1 + i, 384, 256, 0, i, 0, 383);
        right(1 + i, 384, 256);
    }
    expect("everywhere: look along K");
}

/* Errors under their limit have no place: such an op is bad for another reason. */
static void test_unstable_ops_have_no_place(void **state)
{
    (void)state;
    add(9, 96, 256, 0, 8, 0, 95);
    ops[0].over = NULL;
    ops[0].candidate.score = 1;
    ops[0].candidate.row_at = ops[0].candidate.col_at = 3;
    for (int i = 0; i < TD_RMS_PARTS; i++)
        ops[0].limit_of[i] = 2;
    expect("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_but_the_first_rows),
        cmocka_unit_test(test_counted_from_the_end),
        cmocka_unit_test(test_everywhere_of_one_n),
        cmocka_unit_test(test_unstable_ops_have_no_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
