/* test_common_nearest.c - "did you mean" proposes what was meant, and nothing far-fetched.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/nearest.h"

static void test_distance(void **state)
{
    (void)state;
    assert_int_equal(td_nearest_distance("gate", "gate"), 0);
    assert_int_equal(td_nearest_distance("gaet", "gate"), 1);   /* neighbours swapped */
    assert_int_equal(td_nearest_distance("recrod", "record"), 1);
    assert_int_equal(td_nearest_distance("kitten", "sitting"), 3);
    assert_int_equal(td_nearest_distance("", "ab"), 2);
    assert_int_equal(td_nearest_distance("base", "baseline-build"), 1); /* its beginning */
}

static void test_proposals(void **state)
{
    static const char *const words[] = {"record", "replay", "differ", "gate", "fixture"};
    static const struct { const char *given, *want; } cases[] = {
        {"recrod", "record"}, {"reply", "replay"}, {"diff", "differ"},   {"gte", "gate"},
        {"fixtures", "fixture"}, {"play", "replay"}, {"status", NULL}, {"x", NULL}, {"", NULL},
        {"commit", NULL}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = td_nearest(cases[i].given, words, 5);

        if (cases[i].want)
            assert_string_equal(near, cases[i].want);
        else
            assert_null(near);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_distance), cmocka_unit_test(test_proposals)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
