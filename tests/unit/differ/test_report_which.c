/* test_report_which.c - where in the outputs the errors are: what the slices of a bias say of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "differ/bias.h"
#include "differ/report_which.h"

#define OPS 10

static const struct td_bias_finding FOURTH = {.test = {.slice = {TD_SLICE_COLS, 4, 0}}};
static const struct td_bias_finding EIGHTH = {.test = {.slice = {TD_SLICE_COLS, 8, 0}}};
static const struct td_bias_finding WHOLE = {.test = {.slice = {TD_SLICE_ALL, 1, 0}}};

/* "matrix" of ops that are bad, `a` of them by one finding, then `b` by another, the rest for other reasons. */
static const char *matrix(const struct td_bias_finding *first, int a, const struct td_bias_finding *second, int b)
{
    static char text[200];
    struct td_judged_op op[OPS];
    struct td_judged_ops ops = {.op = op, .n = OPS};
    struct td_buf out = TD_BUF_INIT(1 << 20);
    struct td_jw w;
    cJSON *json;
    int i;

    memset(op, 0, sizeof op);
    for (i = 0; i < OPS; i++)
        op[i] = (struct td_judged_op){.kind = "gptq_gemm", .shape = "64x64", .layer = "l", .op = i, .m = 1, .n = 64, .k = 64,
                                      .status = TD_OP_OK, .result = TD_RESULT_WORSE,
                                      .bias = i < a ? first : i < a + b ? second : NULL};
    td_jw_init(&w, &out, false);
    td_jw_obj(&w, NULL);
    td_which_write_json(&w, &ops);
    td_jw_end(&w);
    json = td_json_parse(td_buf_str(&out), out.len, NULL);
    assert_non_null(json);
    snprintf(text, sizeof text, "%s", td_json_get_str(json, "matrix", "nothing"));
    cJSON_Delete(json);
    td_buf_release(&out);
    return text;
}

static void slices_tell_the_place(void **state)
{
    (void)state;
    assert_string_equal(matrix(&FOURTH, OPS, NULL, 0), "columns = 0 mod 4");
    assert_string_equal(matrix(&FOURTH, 7, &EIGHTH, 3), "columns = 0 mod 4 in 7 of 10 bad ops");
    assert_string_equal(matrix(&FOURTH, 3, &EIGHTH, 7), "columns = 0 mod 8 in 7 of 10 bad ops");
    assert_string_equal(matrix(&FOURTH, 5, NULL, 0), "columns = 0 mod 4 in 5 of 10 bad ops");
}

static void slices_of_few_ops_do_not(void **state)
{
    (void)state;
    assert_string_equal(matrix(&FOURTH, 4, NULL, 0), "nothing");
    assert_string_equal(matrix(&FOURTH, 4, &EIGHTH, 4), "nothing");
    assert_string_equal(matrix(NULL, 0, NULL, 0), "nothing");
}

static void whole_outputs(void **state)
{
    (void)state;
    assert_string_equal(matrix(&WHOLE, OPS, NULL, 0), "all elements");
    assert_string_equal(matrix(&WHOLE, 9, NULL, 0), "nothing");
    assert_string_equal(matrix(&WHOLE, 5, &FOURTH, 5), "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_tell_the_place),
        cmocka_unit_test(slices_of_few_ops_do_not),
        cmocka_unit_test(whole_outputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
