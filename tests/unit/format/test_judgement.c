/* test_judgement.c - sums over slices in a judgement: those that errors can have, and those that none can.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/judgement.h"
#include "format/slices.h"

#define ROWS 9
#define COLS 200
#define U_OUT 0x1p-11
#define SCORE 0.75

/* The sums of errors of 0.75 and less, of outputs x of up to 1 / u_out. */
static struct td_slices sound(double size)
{
    struct td_slices s = {.rows = ROWS, .cols = COLS, .first_tail = TD_SLICES_FIRST_TAIL};
    double sum[TD_SLICE_SUMS][TD_SLICES_MAX] = {{0}};
    struct td_slices_layout l;
    int i, j, k, t;

    td_slices_layout_of(ROWS, COLS, TD_SLICES_FIRST_TAIL, &l);
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < COLS; j++) {
            const double e = size * SCORE * sin(i * 7 + j), x = cos(i + 3 * j) / U_OUT;
            const double of[TD_SLICE_SUMS] = {e, e * x, x * x, e * e};

            for (k = 0; k < TD_SLICE_SUMS; k++) {
                sum[k][0] += of[k];
                sum[k][l.cols.first + j % TD_SLICES_COLS] += of[k];
                sum[k][l.rows.first + i % TD_SLICES_ROWS] += of[k];
                for (t = 0; t < l.col_tails.n; t++)
                    sum[k][l.col_tails.first + t] += j >= td_slices_tail_start(COLS, TD_SLICES_FIRST_TAIL << t) ? of[k] : 0;
                for (t = 0; t < l.row_tails.n; t++)
                    sum[k][l.row_tails.first + t] += i >= td_slices_tail_start(ROWS, TD_SLICES_FIRST_TAIL << t) ? of[k] : 0;
            }
        }
    for (k = 0; k < TD_SLICE_SUMS; k++)
        for (i = 0; i < l.n; i++)
            s.sum[k][i] = (float)sum[k][i];
    return s;
}

/* Is a judgement accepted whose side holds these sums? */
static bool passes(const struct td_slices *s, const char *score, const char *side, const char *why)
{
    struct td_op op = {.op = 3, .kind = "gptq_gemm", .has_out = true};
    cJSON *judge = cJSON_CreateObject(), *e;
    struct td_error err = {0};
    char text[512];
    int rc;

    op.out.ndim = 2;
    op.out.shape[0] = ROWS;
    op.out.shape[1] = COLS;
    snprintf(text, sizeof text, "{\"score\":%s,\"worst_row\":[0,0],\"worst_col\":[0,0],\"worst_tile\":[0,0,0]}", score);
    e = cJSON_Parse(text);
    assert_non_null(e);
    cJSON_AddItemToObject(e, "slices", td_slices_json(s));
    cJSON_AddItemToObject(judge, side, e);
    cJSON_AddItemToObject(judge, "limits", cJSON_Parse("{\"u_out\":0.00048828125}"));
    op.judge = judge;
    rc = td_judgement_check(&op, &err);
    if (rc && why && !strstr(err.msg, why))
        fail_msg("%s", err.msg);
    cJSON_Delete(judge);
    return rc == TD_OK;
}

static void sums_of_errors_are_accepted(void **state)
{
    const struct td_slices s = sound(1), none = sound(0), tiny = sound(1e-25);

    (void)state;
    assert_true(passes(&s, "0.75", "candidate", NULL));
    assert_true(passes(&s, "\"Infinity\"", "candidate", NULL)); /* another run was not finite */
    assert_true(passes(&none, "0", "recorded", NULL));
    assert_true(passes(&tiny, "7.5e-26", "baseline", NULL));
}

/* One sum that the others rule out. */
static void forged_sums_are_refused(void **state)
{
    static const char *const SIDES[] = {"recorded", "baseline", "candidate"};
    static const struct { enum td_slice_sum of; int at; float times, more; const char *why; } FORGED[] = {
        {TD_SUM_E, 0, 1, 1e30f, "e*e is at most n*ee"},
        {TD_SUM_E, 5, 1, 40, "e*e is at most n*ee"},
        {TD_SUM_EX, 0, 1, 1e30f, "ex*ex is at most ee*xx"},
        {TD_SUM_EX, 64 + 1 + 9 + 2, 1, -1e7f, "ex*ex is at most ee*xx"},
        {TD_SUM_EE, 0, 3, 0, "ee is at most n times the score's square"},
        {TD_SUM_EE, 7, 1e20f, 0, "ee is at most n times the score's square"},
        {TD_SUM_XX, 0, 2.5f, 0, "xx is at most n over u_out's square"},
        {TD_SUM_E, 5, 1, 0.05f, "add up to the whole"},
        {TD_SUM_EX, 9, 1.1f, 0, "add up to the whole"},
        {TD_SUM_XX, 9, 1.02f, 0, "add up to the whole"},
        {TD_SUM_EE, 9, 1.02f, 0, "add up to the whole"},
        {TD_SUM_EE, 64 + 1 + 2, 1.02f, 0, "add up to the whole"},
        {TD_SUM_XX, 64 + 1 + 9 + 1, 0.4f, 0, "a last tile is a part of larger ones"}, /* of two columns: less than of the last */
        {TD_SUM_XX, 64 + 1 + 9 + 8, 1.02f, 0, "a last tile is a part of larger ones"}}; /* of the last row, which is the ninth */
    size_t i, side;

    (void)state;
    for (i = 0; i < sizeof FORGED / sizeof *FORGED; i++)
        for (side = 0; side < 3; side++) {
            struct td_slices s = sound(1);
            float *sum = &s.sum[FORGED[i].of][FORGED[i].at];

            *sum = *sum * FORGED[i].times + FORGED[i].more;
            if (passes(&s, "0.75", SIDES[side], FORGED[i].why))
                fail_msg("forged sum %zu is accepted", i);
        }
}

static void another_size_is_refused(void **state)
{
    struct td_slices s = sound(1);

    (void)state;
    s.rows = ROWS + 1; /* as many sums */
    assert_false(passes(&s, "0.75", "candidate", "sums over 1800 elements"));
    s = sound(1);
    assert_false(passes(&s, "0.3", "candidate", "ee is at most"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_errors_are_accepted),
        cmocka_unit_test(forged_sums_are_refused),
        cmocka_unit_test(another_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
