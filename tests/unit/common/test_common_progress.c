/* test_common_progress.c - the text of a progress line, and when it is printed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/progress.h"

static void test_duration(void **state)
{
    static const struct { int64_t s; const char *text; } want[] = {
        {-5, "0 s"}, {0, "0 s"}, {99, "99 s"}, {100, "1 min 40 s"}, {599, "9 min 59 s"},
        {600, "10 min"}, {5999, "100 min"}, {6000, "1 h 40 min"}, {90000, "25 h 0 min"}};
    char out[32];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(td_progress_duration(want[i].s, out), want[i].text);
}

static void test_text(void **state)
{
    struct td_progress p = {.what = "ops", .total = 1000, .start_ns = 0};
    char out[TD_PROGRESS_TEXT], note[400];

    (void)state;
    assert_string_equal(td_progress_text(&p, 0, 0, NULL, out), "ops  0/1000  0 %  0 s");
    /* a quarter in 30 s: three quarters take 90 s */
    assert_string_equal(td_progress_text(&p, 250, 30 * TD_NS_PER_S, "judged", out),
                        "ops  250/1000  25 %  30 s  about 90 s left  judged");
    /* too early for an estimate, and at the end nothing is left */
    assert_string_equal(td_progress_text(&p, 1, TD_NS_PER_S, NULL, out), "ops  1/1000  0 %  1 s");
    assert_string_equal(td_progress_text(&p, 1000, 60 * TD_NS_PER_S, NULL, out),
                        "ops  1000/1000  100 %  60 s");
    p.total = 0;
    assert_string_equal(td_progress_text(&p, 0, 5 * TD_NS_PER_S, "nobody listens yet", out),
                        "ops  5 s  nobody listens yet");
    assert_string_equal(td_progress_text(&p, 7, 5 * TD_NS_PER_S, NULL, out), "ops  7  5 s");
    memset(note, 'x', sizeof note - 1);
    note[sizeof note - 1] = '\0';
    p.total = INT64_MAX;
    td_progress_text(&p, INT64_MAX - 1, INT64_MAX / 2, note, out);
    assert_true(strlen(out) < TD_PROGRESS_TEXT);
}

/* Run `work` with stderr on descriptor `to`. */
static void with_stderr(int to, void (*work)(void))
{
    int keep = dup(STDERR_FILENO);

    fflush(stderr);
    dup2(to, STDERR_FILENO);
    work();
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
}

static void work_with_a_line_each_time(void)
{
    struct td_progress p;

    td_progress_start(&p, "ops", 3);
    assert_int_equal(p.every_ns, 30 * TD_NS_PER_S);
    p.every_ns = 0;
    td_progress_at(&p, 1, "judged");
    td_progress_done(&p);
    td_progress_done(&p);
    td_progress_start(&p, "quick", 3); /* over within 30 s: no line */
    td_progress_at(&p, 3, NULL);
    td_progress_done(&p);
}

static void work_quietly(void)
{
    td_log_set_quiet(true);
    work_with_a_line_each_time();
    td_log_set_quiet(false);
}

/* What `work` writes to a pipe, as a log takes it. */
static void read_log(void (*work)(void), char *out, size_t size)
{
    int fds[2];
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    with_stderr(fds[1], work);
    close(fds[1]);
    n = read(fds[0], out, size - 1);
    assert_true(n >= 0);
    out[n] = '\0';
    close(fds[0]);
}

static void test_log(void **state)
{
    char text[1000];

    (void)state;
    td_log_program("replay");
    read_log(work_with_a_line_each_time, text, sizeof text);
    assert_string_equal(text, "replay: ops  1/3  33 %  0 s  judged\nreplay: ops  1/3  33 %  0 s  done\n");
    read_log(work_quietly, text, sizeof text);
    assert_string_equal(text, "");
}

static void work_on_a_terminal(void)
{
    struct td_progress p;

    td_progress_start(&p, "ops of a build with a long name", 3);
    td_log(TD_LOG_WARN, "replay", "a warning");
    td_progress_at(&p, 3, NULL);
    td_progress_done(&p);
}

static void test_terminal(void **state)
{
    struct winsize narrow = {.ws_row = 24, .ws_col = 20};
    char text[1000];
    int master, slave;
    size_t len = 0;
    ssize_t n;

    (void)state;
    td_log_program("replay");
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &narrow), 0);
    with_stderr(slave, work_on_a_terminal);
    close(slave); /* then the other end is read to its end */
    while ((n = read(master, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    /* one column is left free; the warning has a line of its own; at the end the line is gone */
    assert_string_equal(text, "ops of a build with\r\033[Kreplay: warning: a warning\r\n"
                              "ops of a build with\r\033[K");
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_duration), cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_log), cmocka_unit_test(test_terminal)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
