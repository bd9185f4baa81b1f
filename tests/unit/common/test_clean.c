/* test_clean.c - a clean line shows whatever a text holds, and nothing of it acts.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/hidden.h"

static void check_line(const char *text, size_t max, const char *expected)
{
    struct td_buf out = TD_BUF_INIT(1 << 16);

    td_clean_line(text, max, &out);
    assert_string_equal(td_buf_str(&out), expected);
    td_buf_release(&out);
}

static void control_characters_become_escapes(void **state)
{
    (void)state;
    check_line("a\nb\tc\r\033[31m\x7F", 100, "a\\nb\\tc\\x0d\\x1b[31m\\x7f");
    check_line("\xC2\x9B"
               "31m",
               100, "\\x9b31m"); /* the one-character form of ESC [ */
}

static void what_is_not_seen_becomes_an_escape(void **state)
{
    (void)state;
    check_line("\xE2\x80\xAE"
               "evil",
               100, "\\u202eevil"); /* right to left */
    check_line("a\xE2\x80\x8B"
               "b\xEF\xBB\xBF",
               100, "a\\u200bb\\ufeff");
    check_line("x\xE2\x80\xA8y", 100, "x\\u2028y"); /* ends a line in some programs */
    check_line("\xEF\xBF\xBE\xEF\xBF\xBF", 100, "\\ufffe\\uffff"); /* XML has no place for these */
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    (void)state;
    check_line("a\xFF\xC3", 100, "a\xEF\xBF\xBD\xEF\xBF\xBD");
    check_line("\xED\xA0\x80", 100, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"); /* a surrogate */
    check_line("a\xC0\x80"
               "b",
               100, "a\\x00b"); /* NUL, as json.h codes it */
}

static void a_long_text_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    check_line("abcdef", 6, "abcdef");
    check_line("abcdef", 5, "abcde...");
    check_line("ab\xC3\xA4", 3, "ab...");
    check_line("abc", 0, "...");
    check_line("", 0, "");
    check_line(NULL, 10, "");
}

static void the_end_of_the_buffer_is_not_passed(void **state)
{
    struct td_buf out = TD_BUF_INIT(1 << 16);
    char *exact = malloc(3);

    (void)state;
    assert_non_null(exact);
    memcpy(exact, "a\xE2\x80", 3); /* a character that is cut short, and no NUL behind it */
    td_clean_bytes(exact, 3, &out);
    assert_string_equal(td_buf_str(&out), "a\xEF\xBF\xBD\xEF\xBF\xBD");
    free(exact);
    td_buf_release(&out);
}

static void json_stays_json(void **state)
{
    struct td_buf out = TD_BUF_INIT(1 << 16);
    static const char json[] = "{\n  \"a\\\\##[x]\": \"##vso[y] \xC2\x85 \x7F \xE2\x80\xAE \\n \xC3\xA4 #\"\n}\n";

    (void)state;
    td_clean_json(json, sizeof json - 1, &out);
    assert_string_equal(td_buf_str(&out), "{\n  \"a\\\\\\u0023#[x]\": \"\\u0023#vso[y] \\u0085 \\u007f \\u202e "
                                          "\\n \xC3\xA4 #\"\n}\n");
    td_buf_release(&out);
}

static void hide_digits(const void *arg, char *text, size_t n)
{
    char *at;

    (void)arg;
    (void)n;
    while ((at = strstr(text, "87654321")))
        memset(at, '*', 8);
}

/* In JSON a number stays one. */
static void what_is_hidden_is_overwritten(void **state)
{
    static const char json[] = "{\"a\":\"\\\"87654321\",\"n\":1876543210,\"87654321\":[87654321]}";
    struct td_buf out = TD_BUF_INIT(1 << 16);

    (void)state;
    td_hidden_set(hide_digits, NULL);
    check_line("key 87654321, and 87654321", 100, "key ********, and ********");
    check_line("key 87654321", 8, "key ****..."); /* before it is cut */
    td_clean_bytes("87654321\n", 9, &out);
    assert_string_equal(td_buf_str(&out), "********\\n");
    td_buf_clear(&out);
    td_clean_json(json, strlen(json), &out);
    assert_string_equal(td_buf_str(&out), "{\"a\":\"\\\"********\",\"n\":1111111110,\"********\":[11111111]}");
    td_buf_release(&out);
    td_hidden_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_become_escapes),
        cmocka_unit_test(what_is_not_seen_becomes_an_escape),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(a_long_text_is_cut_at_a_whole_character),
        cmocka_unit_test(the_end_of_the_buffer_is_not_passed),
        cmocka_unit_test(json_stays_json),
        cmocka_unit_test(what_is_hidden_is_overwritten),
    };

    return cmocka_run_group_tests_name("clean", tests, NULL, NULL);
}
