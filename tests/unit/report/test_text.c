/* test_text.c - widths in columns, lines that are wrapped or cut, commands that can be copied,
 * tables.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "report/text.h"
#include "report/text_table.h"

static struct td_buf out = TD_BUF_INIT(1 << 20);

static int empty(void **state)
{
    (void)state;
    td_buf_release(&out);
    td_buf_init(&out, 1 << 20);
    return 0;
}

static void widths_are_columns(void **state)
{
    (void)state;
    assert_int_equal(td_text_width("abc"), 3);
    assert_int_equal(td_text_width("\xE6\xBC\xA2\xE5\xAD\x97"), 4); /* two wide characters */
    assert_int_equal(td_text_width("a\xCC\x81"), 1);                /* a mark on its letter */
    assert_int_equal(td_text_width("\xFF"), 1);
    assert_int_equal(td_text_clip(&out, "\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2", 5), 5);
    assert_string_equal(td_buf_str(&out), "\xE6\xBC\xA2...");
}

static void nothing_commands_a_terminal(void **state)
{
    (void)state;
    td_text_clip(&out, "a\033[31mb\r\xC2\x9B" "c\xE2\x80\xAE" "d\xFF", 80);
    assert_string_equal(td_buf_str(&out), "a?[31mb??c?d?");
}

static void lines_are_broken_between_words(void **state)
{
    char words[400] = "";

    (void)state;
    for (int i = 0; i < 40; i++)
        strcat(words, "seven ch ");
    assert_int_equal(td_text_wrap(&out, "WHY", 7, words, 9), 4);
    assert_memory_equal(td_buf_str(&out), "WHY    seven", 12);
    assert_non_null(strstr(td_buf_str(&out), "\n       seven"));
    for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, TD_TEXT_COLUMNS);
    empty(NULL);
    assert_int_equal(td_text_wrap(&out, "", 0, words, 1), 1);
    assert_string_equal(td_buf_str(&out) + out.len - 5, " ...\n");
    assert_true(out.len <= TD_TEXT_COLUMNS + 1);
}

/* A shell that reads the lines has the command again. */
static void a_command_can_be_copied(void **state)
{
    char path[300], command[400], again[500];
    size_t n = 0;

    (void)state;
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    snprintf(command, sizeof command, "tapedeck fixture extract %s -o repro \"a b\" --op 0", path);
    assert_int_equal(td_text_command(&out, "NEXT", 7, command), 5);
    for (const char *p = td_buf_str(&out) + 7; *p; p++)
        if (p[0] == '\\' && p[1] == '\n')
            p++;
        else if (!(p[0] == ' ' && (n == 0 || again[n - 1] == ' ')))
            again[n++] = *p;
    again[n - 1] = '\0'; /* the line feed */
    assert_string_equal(again, command);
    for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, TD_TEXT_COLUMNS);
}

static void a_table_lines_up_and_fits(void **state)
{
    struct td_table t;
    char wide[201];

    (void)state;
    td_table_init(&t, "lr", 2);
    td_table_add(&t, "kernel");
    td_table_add(&t, "bad");
    td_table_add(&t, "gemm");
    td_table_add(&t, "%d", 7);
    assert_int_equal(td_table_write(&t, &out), 2);
    assert_string_equal(td_buf_str(&out), "  kernel  bad\n  gemm      7\n");
    td_table_release(&t);
    empty(NULL);
    memset(wide, 'w', 200);
    wide[200] = '\0';
    td_table_init(&t, "lr", 2);
    td_table_add(&t, "%s", wide);
    td_table_add(&t, "123456");
    td_table_write(&t, &out);
    assert_int_equal(out.len, TD_TEXT_COLUMNS + 1);
    assert_non_null(strstr(td_buf_str(&out), "www... 123456\n")); /* one blank, before a name is cut */
    td_table_release(&t);
}

static void numbers_are_short(void **state)
{
    static const struct { const char *json, *words; } CASES[] = {
        {"0.98765", "0.988"}, {"\"NaN\"", "NaN"}, {"\"Infinity\"", "Inf"}, {"null", "?"}, {"4", "4"}};
    char number[TD_TEXT_NUMBER];

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        cJSON *v = cJSON_Parse(CASES[i].json);

        assert_string_equal(td_text_number(v, number), CASES[i].words);
        cJSON_Delete(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(widths_are_columns, empty),
        cmocka_unit_test_setup(nothing_commands_a_terminal, empty),
        cmocka_unit_test_setup(lines_are_broken_between_words, empty),
        cmocka_unit_test_setup(a_command_can_be_copied, empty),
        cmocka_unit_test_setup(a_table_lines_up_and_fits, empty),
        cmocka_unit_test_setup(numbers_are_short, empty),
    };

    return cmocka_run_group_tests_name("text", tests, empty, empty);
}
