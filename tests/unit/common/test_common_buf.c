/* test_common_buf.c - growing, the maximum, failure that sticks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/error.h"

static void test_grow(void **state)
{
    struct td_buf b = TD_BUF_INIT(100000);
    size_t len;
    char *p;

    (void)state;
    assert_string_equal(td_buf_str(&b), "");
    for (int i = 0; i < 10000; i++)
        assert_int_equal(td_buf_addf(&b, "%d,", i % 10), TD_OK);
    assert_int_equal(b.len, 20000);
    assert_int_equal(strlen(b.data), 20000);
    td_buf_consume(&b, 19998);
    assert_string_equal(b.data, "9,");
    td_buf_consume(&b, 5);
    assert_int_equal(b.len, 0);
    td_buf_add(&b, "x\0y", 3);
    p = td_buf_detach(&b, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(p, "x\0y", 4);
    free(p);
    assert_null(b.data);
    td_buf_release(&b);
}

static void test_maximum(void **state)
{
    struct td_buf b = TD_BUF_INIT(10);

    (void)state;
    assert_int_equal(td_buf_add(&b, "0123456789", 10), TD_OK);
    assert_int_equal(td_buf_addc(&b, 'x'), TD_ELIMIT);
    assert_true(b.failed);
    assert_string_equal(b.data, "0123456789"); /* unchanged */
    assert_null(td_buf_reserve(&b, 0));        /* and nothing works until it is cleared */
    td_buf_clear(&b);
    assert_int_equal(td_buf_add(&b, "", SIZE_MAX), TD_ELIMIT);
    td_buf_clear(&b);
    assert_int_equal(td_buf_adds(&b, "ok"), TD_OK);
    td_buf_release(&b);
}

static void test_reserve(void **state)
{
    struct td_buf b = TD_BUF_INIT(100);
    char *p = td_buf_reserve(&b, 5);

    (void)state;
    memcpy(p, "hello", 5);
    b.len += 5;
    td_buf_adds(&b, "!");
    assert_string_equal(td_buf_str(&b), "hello!");
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grow), cmocka_unit_test(test_maximum), cmocka_unit_test(test_reserve)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
