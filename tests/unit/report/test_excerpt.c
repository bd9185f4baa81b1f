/* test_excerpt.c - an excerpt is one clean line, cut at whole characters.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "report/excerpt.h"

static void check_excerpt(const char *text, size_t at, size_t before, size_t after, const char *expected)
{
    struct td_buf out = TD_BUF_INIT(4096);

    td_excerpt(text, strlen(text), at, before, after, &out);
    assert_string_equal(td_buf_str(&out), expected);
    td_buf_release(&out);
}

static void a_short_text_is_quoted_in_full(void **state)
{
    (void)state;
    check_excerpt("", 0, 10, 10, "\"\"");
    check_excerpt("abc", 1, 10, 10, "\"abc\"");
}

static void dots_stand_where_the_text_was_cut(void **state)
{
    (void)state;
    check_excerpt("0123456789", 5, 2, 3, "...\"34567\"...");
    check_excerpt("0123456789", 0, 2, 3, "\"012\"...");
    check_excerpt("0123456789", 9, 2, 3, "...\"789\"");
}

/* "ä" is two bytes: a cut in its middle widens the excerpt to the whole of it. */
static void characters_are_not_cut(void **state)
{
    (void)state;
    check_excerpt("a\xC3\xA4" "b\xC3\xA4" "c", 3, 1, 2, "...\"\xC3\xA4" "b\xC3\xA4\"...");
}

static void what_would_hurt_a_terminal_is_escaped(void **state)
{
    (void)state;
    check_excerpt("a\nb\tc\033[31m\x7F", 0, 0, 100, "\"a\\nb\\tc\\x1b[31m\\x7f\"");
    check_excerpt("\xC2\x9B" "31m", 0, 0, 100, "\"\\x9b31m\""); /* the one-character form of ESC [ */
    check_excerpt("a\xFF" "b", 0, 0, 100, "\"a\xEF\xBF\xBD" "b\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_text_is_quoted_in_full),
        cmocka_unit_test(dots_stand_where_the_text_was_cut),
        cmocka_unit_test(characters_are_not_cut),
        cmocka_unit_test(what_would_hurt_a_terminal_is_escaped),
    };

    return cmocka_run_group_tests_name("excerpt", tests, NULL, NULL);
}
