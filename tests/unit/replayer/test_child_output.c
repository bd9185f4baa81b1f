/* test_child_output.c - what a process writes: a line once, the message of the report, any bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/hidden.h"
#include "replayer/child_output.h"

static struct td_child_output out;
static int to = -1;

static int begin(void **state)
{
    (void)state;
    td_child_output_init(&out, "candidate");
    return td_child_output_open(&out, &to, NULL);
}

static int end(void **state)
{
    (void)state;
    td_child_output_close(&out);
    close(to);
    return 0;
}

static void put(const char *text)
{
    assert_int_equal(write(to, text, strlen(text)), (int)strlen(text));
}

static void test_the_message(void **state)
{
    (void)state;
    assert_string_equal(td_child_output_message(&out), "");
    put("one\ntwo  \r\n\n");
    assert_string_equal(td_child_output_message(&out), "two");
    put("x.c:3: f: Assertion `a' failed.\nAborted\n");
    assert_string_equal(td_child_output_message(&out), "x.c:3: f: Assertion `a' failed.");
    td_child_output_forget(&out);
    assert_string_equal(td_child_output_message(&out), "");
    put("no end");
    assert_string_equal(td_child_output_message(&out), "no end");
}

static void test_any_bytes(void **state)
{
    char longer[3 * TD_CHILD_LINE];

    (void)state;
    put("a\033[31mb\xff\tc\n");
    assert_string_equal(td_child_output_message(&out), "a?[31mb? c");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    put(longer);
    put("\n");
    assert_int_equal(strlen(td_child_output_message(&out)), TD_CHILD_LINE - 1);
}

static void hide_word(const void *word, char *text, size_t n)
{
    char *at;

    (void)n;
    while ((at = strstr(text, word)))
        memset(at, '*', strlen(word));
}

/* A key across the end of what is kept of a line is hidden as one that is whole. */
static void test_a_cut_line_keeps_no_part_of_a_key(void **state)
{
    char line[3 * TD_CHILD_LINE];
    size_t at;

    (void)state;
    td_hidden_set(hide_word, "canary7Key");
    for (at = TD_CHILD_LINE - 12; at < TD_CHILD_LINE; at++) {
        snprintf(line, sizeof line, "%*s canary7Key behind it\n", (int)at, "x");
        put(line);
        assert_null(strstr(td_child_output_message(&out), "c"));
        assert_int_equal(strlen(td_child_output_message(&out)), TD_CHILD_LINE - 1);
    }
    td_hidden_set(NULL, NULL);
}

/* A process that is asked for its message amid a line: the halves of a key are no key to any filter. */
static void test_a_line_in_two_pieces_keeps_no_key(void **state)
{
    (void)state;
    put("the key is canary7Ke");
    assert_string_equal(td_child_output_message(&out), "the key is *********");
    td_child_output_forget(&out);
    put("y12345 and more\n");
    assert_string_equal(td_child_output_message(&out), "****** and more");
    td_child_output_forget(&out);
    put("invalid argument");
    assert_string_equal(td_child_output_message(&out), "invalid argument");
    put("\nnext\n");
    assert_string_equal(td_child_output_message(&out), "next");
}

/* stderr of this process goes to a file; how often does it hold `what`? */
static int logged(FILE *f, const char *what)
{
    char line[1000];
    int n = 0;

    rewind(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, what) != NULL;
    return n;
}

static void test_a_line_is_logged_once(void **state)
{
    FILE *f = tmpfile();
    int keep = dup(STDERR_FILENO), i;
    char line[40];

    (void)state;
    fflush(stderr);
    dup2(fileno(f), STDERR_FILENO);
    for (i = 0; i < 50; i++) {
        put("the same\n");
        td_child_output_drain(&out);
    }
    for (i = 0; i < 50; i++) {
        snprintf(line, sizeof line, "other %d\n", i);
        put(line);
        td_child_output_drain(&out);
    }
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    assert_int_equal(logged(f, "the candidate wrote: the same"), 1);
    assert_int_equal(logged(f, "wrote: other"), TD_CHILD_LINES_SHOWN - 1);
    fclose(f);
}

/* More than a pipe holds is read while waiting, so that the process is not held up. */
static void test_waiting_reads(void **state)
{
    char block[1000];
    int never[2], i;

    (void)state;
    assert_int_equal(pipe(never), 0);
    memset(block, 'y', sizeof block);
    fcntl(to, F_SETFL, O_NONBLOCK);
    while (write(to, block, sizeof block) > 0)
        ;
    for (i = 0; i < 5; i++)
        assert_int_equal(td_child_output_wait(&out, never[0], 20, NULL, NULL), TD_ETIMEOUT);
    assert_true(write(to, block, sizeof block) > 0);
    assert_int_equal(write(never[1], "1", 1), 1);
    assert_int_equal(td_child_output_wait(&out, never[0], 2000, NULL, NULL), TD_OK);
    close(never[0]);
    close(never[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_message, begin, end),
        cmocka_unit_test_setup_teardown(test_any_bytes, begin, end),
        cmocka_unit_test_setup_teardown(test_a_cut_line_keeps_no_part_of_a_key, begin, end),
        cmocka_unit_test_setup_teardown(test_a_line_in_two_pieces_keeps_no_key, begin, end),
        cmocka_unit_test_setup_teardown(test_a_line_is_logged_once, begin, end),
        cmocka_unit_test_setup_teardown(test_waiting_reads, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
