/* test_opload.c - what a record says of launches reaches the op, whole or not at all.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "replayer/opload.h"

#define WHOLE "{\"rows\":[0,128],\"grid\":[132,1,1],\"block\":[256,1,1],\"shared_bytes\":232448}"

static struct td_op_call load(const char *launches)
{
    struct td_loader *l = td_loader_new(NULL, NULL);
    struct td_op rec = {.kind = (char[]){"gptq_gemm"}, .has_out = true, .impl = {.symbol = (char[]){"_Z1k"}, .layout = (char[]){"marlin"}, .launches = cJSON_Parse(launches)}};
    struct td_hold hold = {.n = 0};
    struct td_op_call op;
    const void *recorded;

    snprintf(rec.out.role, sizeof rec.out.role, "c");
    snprintf(rec.out.dtype, sizeof rec.out.dtype, "F16");
    assert_int_equal(td_loader_get(l, &rec, &op, &recorded, &hold, NULL), TD_OK);
    cJSON_Delete(rec.impl.launches);
    td_loader_free(l);
    return op;
}

static void test_launches_are_read(void **state)
{
    struct td_op_call op = load("[" WHOLE ",{\"rows\":[128,141],\"grid\":[132,1,1],\"block\":[128,1,1],\"symbol\":\"_Z1j\"}]");

    (void)state;
    assert_int_equal(op.n_launches, 2);
    assert_int_equal(op.launches[0].rows[1], 128);
    assert_int_equal(op.launches[0].grid[0], 132);
    assert_int_equal(op.launches[0].block[0], 256);
    assert_int_equal(op.launches[0].shared_bytes, 232448);
    assert_string_equal(op.launches[0].symbol, "");
    assert_int_equal(op.launches[1].shared_bytes, 0);
    assert_string_equal(op.launches[1].symbol, "_Z1j");
}

static void test_all_or_none(void **state)
{
    static const char *const bad[] = {
        "[" WHOLE ",{\"rows\":[128,141]}]", "[" WHOLE ",7]", "[]", "{}", "[{\"rows\":[0],\"grid\":[1,1,1],\"block\":[1,1,1]}]",
        "[{\"rows\":[0,1,2],\"grid\":[1,1,1],\"block\":[1,1,1]}]", "[{\"rows\":[0,-1],\"grid\":[1,1,1],\"block\":[1,1,1]}]",
        "[{\"rows\":[0,1],\"grid\":[4294967296,1,1],\"block\":[1,1,1]}]", "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[\"a\",1,1]}]",
        "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[1,1,1],\"shared_bytes\":-1}]", "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[1,1,1],\"shared_bytes\":4294967297}]",
    };
    char many[8192] = "[" WHOLE, name[2000];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(load(bad[i]).n_launches, 0);
    for (int i = 1; i < TD_OP_MAX_LAUNCHES; i++)
        strcat(many, "," WHOLE);
    strcpy(many + strlen(many), "]");
    assert_int_equal(load(many).n_launches, TD_OP_MAX_LAUNCHES);
    strcpy(many + strlen(many) - 1, "," WHOLE "]");
    assert_int_equal(load(many).n_launches, 0);
    snprintf(name, sizeof name, "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[1,1,1],\"symbol\":\"%0*d\"}]", TD_OP_MAX_SYMBOL, 1);
    assert_int_equal(load(name).n_launches, 0); /* longer than a symbol may be */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launches_are_read), cmocka_unit_test(test_all_or_none)};

    return cmocka_run_group_tests_name("opload", tests, NULL, NULL);
}
