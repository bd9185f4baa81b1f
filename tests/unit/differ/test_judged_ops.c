/* test_judged_ops.c - every attribute of an op reaches the differ; more than an op may have are refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "differ/judged_ops.h"
#include "differ/speed.h"

static cJSON *attributes(int n)
{
    cJSON *o = cJSON_CreateObject();
    char name[TD_OP_MAX_ATTR_NAME];

    cJSON_AddStringToObject(o, "note", "no integer");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "p%d", i);
        cJSON_AddNumberToObject(o, name, 100 + i);
    }
    return o;
}

static void all_attributes_arrive(void **state)
{
    struct td_op op = {.op = 7, .kind = (char[]){"ggml_rope"}};
    struct td_judged_ops set = {0};
    struct td_error err = {0, ""};
    char name[TD_OP_MAX_ATTR_NAME];

    (void)state;
    op.attrs = attributes(TD_OP_MAX_ATTRS);
    assert_int_equal(td_judged_ops_add(&set, "fx", &op, &err), TD_OK);
    assert_int_equal(set.op[0].n_attrs, TD_OP_MAX_ATTRS);
    for (int i = 0; i < TD_OP_MAX_ATTRS; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(td_judged_op_attr(&set.op[0], name, -1), 100 + i);
    }
    cJSON_Delete(op.attrs);
    td_judged_ops_release(&set);
}

static void one_more_is_refused_by_name(void **state)
{
    struct td_op op = {.op = 7, .kind = (char[]){"ggml_rope"}};
    struct td_judged_ops set = {0};
    struct td_error err = {0, ""};

    (void)state;
    op.attrs = attributes(TD_OP_MAX_ATTRS + 1);
    assert_int_equal(td_judged_ops_add(&set, "fx", &op, &err), TD_ELIMIT);
    assert_string_equal(err.msg, "op 7 (ggml_rope) has 33 attributes; this version takes 32");
    assert_int_equal(set.n, 0);
    cJSON_Delete(op.attrs);
    td_judged_ops_release(&set);
}

/* What is no time is left out, and so is what is none of a process: products and roots of such overflow, and no verdict is made of NaN. */
static void only_times_are_pairs(void **state)
{
    struct td_op op = {.op = 7, .kind = (char[]){"gemm"}};
    struct td_judged_ops set = {0};
    struct td_error err = {0, ""};

    (void)state;
    op.judge = cJSON_Parse("{\"speed\":{\"starts_of\":7,\"hot\":[[1,2],[1e300,1e300],[1e-300,1],[0,1],[-1,1],[1],[\"NaN\",1],[3,4]]}}");
    assert_non_null(op.judge);
    assert_int_equal(td_judged_ops_add(&set, "fx", &op, &err), TD_OK);
    assert_int_equal(set.op[0].n_hot, 2);
    assert_true(set.op[0].hot[3] == 4);
    assert_int_equal(set.op[0].starts_of, 8);
    td_judged_ops_release(&set);
    cJSON_Delete(op.judge);
}

/* Rows of the speed table are told apart by all of their words. */
static void long_labels_are_rows_of_their_own(void **state)
{
    struct td_speed s = {0};
    char one[300], other[300];

    (void)state;
    memset(one, 'k', sizeof one), memset(other, 'k', sizeof other);
    one[299] = other[299] = '\0';
    other[298] = 'j';
    assert_ptr_not_equal(td_speed_row(&s, TD_OP_HOT, one, false), NULL);
    assert_string_equal(td_speed_row(&s, TD_OP_HOT, other, false)->label, other);
    assert_string_equal(td_speed_row(&s, TD_OP_HOT, one, false)->label, one);
    assert_int_equal(s.n, 2);
    td_speed_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_attributes_arrive), cmocka_unit_test(one_more_is_refused_by_name),
                                       cmocka_unit_test(only_times_are_pairs),
                                       cmocka_unit_test(long_labels_are_rows_of_their_own)};

    return cmocka_run_group_tests_name("judged_ops", tests, NULL, NULL);
}
