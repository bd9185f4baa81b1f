/* test_common_invocation.c - names of commands in messages, as the user calls them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/invocation.h"

static void test_expand(void **state)
{
    char out[64], tiny[8];
    const char *text = "{gate} X --build Y; {\"gate\"} {gates} {replay}{";

    (void)state;
    unsetenv("TD_DRIVER");
    assert_string_equal(td_invocation_expand(text, out, sizeof out), "gate X --build Y; {\"gate\"} {gates} replay{");
    setenv("TD_DRIVER", "tapedeck", 1);
    assert_string_equal(td_invocation_expand("{fixture} ls", out, sizeof out), "tapedeck fixture ls");
    assert_string_equal(td_invocation_expand("{fixture} ls", tiny, sizeof tiny), "{fixture} ls");
    setenv("TD_DRIVER", "rm -rf", 1); /* anything but our driver is none */
    assert_string_equal(td_invocation_prefix(), "");
    unsetenv("TD_DRIVER");
}

static void test_errors(void **state)
{
    struct td_error err = {0};

    (void)state;
    setenv("TD_DRIVER", "tapedeck", 1);
    td_fail(&err, TD_EINVAL, "%s: see {replay} --help", "a {gate} of the user's");
    assert_string_equal(err.msg, "a {gate} of the user's: see tapedeck replay --help");
    unsetenv("TD_DRIVER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_expand), cmocka_unit_test(test_errors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
