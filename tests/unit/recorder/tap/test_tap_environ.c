/* test_tap_environ.c - what the tap knows of its environment, whatever the server does with it.
 * SPDX-License-Identifier: Apache-2.0
 * The program starts itself again with the variables, since they are kept before main(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/tap/core/tap_environ.h"

/* vLLM gives its processes titles (setproctitle), which are written over the environment's text. */
static void survives_a_process_title(void **state)
{
    char value[32];
    char **entry;

    (void)state;
    for (entry = environ; *entry; entry++)
        memset(*entry, 'x', strlen(*entry));
    tap_environ_get("TD_TAP_DIR", value, sizeof value);
    assert_string_equal(value, "/run/here");
    tap_environ_get("TD_TAP_TWINS", value, sizeof value);
    assert_string_equal(value, "1");
    tap_environ_get("XDG_RUNTIME_DIR", value, sizeof value);
    assert_string_equal(value, "/run/user");
}

static void what_is_not_there_is_empty(void **state)
{
    char value[4] = "abc";

    (void)state;
    tap_environ_get("TD_TAP_GRAPHS", value, sizeof value);
    assert_string_equal(value, "");
    tap_environ_get("TD_TAP_TWIN", value, sizeof value);   /* a name's beginning is not the name */
    assert_string_equal(value, "");
    tap_environ_get("TD_TAP_DIR", value, sizeof value);    /* does not fit */
    assert_string_equal(value, "");
    tap_environ_get("PATH", value, sizeof value);          /* not the tap's */
    assert_string_equal(value, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_there_is_empty),
        cmocka_unit_test(survives_a_process_title),
    };

    (void)argc;
    if (!getenv("TD_TAP_DIR")) {
        setenv("TD_TAP_DIR", "/run/here", 1);
        setenv("TD_TAP_TWINS", "1", 1);
        setenv("XDG_RUNTIME_DIR", "/run/user", 1);
        unsetenv("TD_TAP_GRAPHS");
        execv("/proc/self/exe", argv);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
