/* test_number_words.c - one op is, two ops are.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "common/number_words.h"

static void expect(int64_t n, const char *want)
{
    char text[80];

    snprintf(text, sizeof text, "%lld op%s differ%s %s %s %s", (long long)n, td_plural(n),
             td_verb(n), td_is(n), td_was(n), td_has(n));
    assert_string_equal(text, want);
}

static void test_counts(void **state)
{
    (void)state;
    expect(0, "0 ops differ are were have");
    expect(1, "1 op differs is was has");
    expect(2, "2 ops differ are were have");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
