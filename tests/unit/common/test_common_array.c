/* test_common_array.c - growable arrays: what is there stays, and a maximum holds.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

static void elements_stay(void **state)
{
    int64_t *v = NULL;
    size_t n, cap = 0;

    (void)state;
    for (n = 0; n < 1000; n++) {
        assert_int_equal(td_array_grow(&v, n, &cap, sizeof *v, 1000), TD_OK);
        assert_true(cap > n);
        v[n] = (int64_t)n * 3;
    }
    for (n = 0; n < 1000; n++)
        assert_int_equal(v[n], n * 3);
    free(v);
}

static void a_full_array_is_left_alone(void **state)
{
    char *v = NULL, *before;
    size_t n, cap = 0, cap_before;

    (void)state;
    for (n = 0; n < 20; n++) {
        assert_int_equal(td_array_grow(&v, n, &cap, 1, 20), TD_OK);
        v[n] = 'x';
    }
    before = v;
    cap_before = cap;
    assert_int_equal(td_array_grow(&v, 20, &cap, 1, 20), TD_ELIMIT); /* though there is room */
    assert_ptr_equal(v, before);
    assert_int_equal(cap, cap_before);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_stay),
                                       cmocka_unit_test(a_full_array_is_left_alone)};

    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
