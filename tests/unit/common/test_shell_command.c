/* test_shell_command.c - commands that a person copies into a shell.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/invocation.h"
#include "common/shell_command.h"

static void assert_starts_with(const char *words)
{
    struct td_buf command = TD_BUF_INIT(1 << 16);

    td_shell_add_program(&command, "fixture");
    assert_string_equal(td_buf_str(&command), words);
    td_buf_release(&command);
}

/* A command to copy starts as the user's did: by its path, through the driver or not. */
static void test_commands(void **state)
{
    static const struct { const char *argv0, *driver, *expected; } CASES[] = {
        {"gate", NULL, "fixture"},
        {"bin/gate", NULL, "bin/fixture"},
        {"./gate", NULL, "./fixture"},
        {"/opt/td/bin/gate", NULL, "/opt/td/bin/fixture"},
        {"/my tools/gate", NULL, "\"/my tools/fixture\""},
        {"gate", "tapedeck", "tapedeck fixture"},
        {"bin/gate", "tapedeck", "bin/tapedeck fixture"},
        {"bin/gate", "rm -rf", "bin/fixture"},
        {"", NULL, "fixture"},
        {NULL, NULL, "fixture"},
    };
    char longest[3000];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        if (CASES[i].driver)
            setenv("TD_DRIVER", CASES[i].driver, 1);
        td_invocation_called(CASES[i].argv0);
        assert_starts_with(CASES[i].expected);
        unsetenv("TD_DRIVER");
    }
    memset(longest, '/', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    td_invocation_called(longest); /* no folder is better than half of one */
    assert_starts_with("fixture");
}

static void test_words(void **state)
{
    struct td_buf command = TD_BUF_INIT(1 << 16);

    (void)state;
    td_shell_add_word(&command, "gate");
    td_shell_add_word(&command, "");
    td_shell_add_word(&command, "a b");
    td_shell_add_word(&command, "$x`\"\\");
    td_shell_add_option(&command, "--build", "new/lib.so");
    td_shell_add_option(&command, "--policy", NULL);
    assert_string_equal(td_buf_str(&command),
                        "gate \"\" \"a b\" \"\\$x\\`\\\"\\\\\" --build new/lib.so");
    td_buf_release(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commands),
                                       cmocka_unit_test(test_words)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
