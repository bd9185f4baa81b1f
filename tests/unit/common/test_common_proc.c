/* test_common_proc.c - children: results, deadlines, groups, and programs that do not exist.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/proc.h"

static int start(struct td_proc *p, const char *script, int out, bool group, struct td_error *err)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)script, NULL}, *env[] = {(char *)"TD_TEST=yes", NULL};
    struct td_proc_options o = {.argv = argv, .extra_env = env, .stdin_fd = -1, .stdout_fd = out, .stderr_fd = -1, .own_group = group};

    return td_proc_start(p, &o, err);
}

static void test_result(void **state)
{
    struct td_error err = {0};
    struct td_proc p;
    char said[80] = "";
    int fd[2];

    (void)state;
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(start(&p, "echo $TD_TEST; cat; exit 3", fd[1], false, &err), TD_OK);
    close(fd[1]);
    assert_int_equal(td_proc_wait(&p, 10000, &err), TD_OK);
    assert_int_equal(p.pid, 0);
    assert_string_equal(td_proc_describe(p.status, said, sizeof said), "exit 3");
    memset(said, 0, sizeof said);
    assert_int_equal(read(fd[0], said, sizeof said - 1), 4);
    assert_string_equal(said, "yes\n");
    close(fd[0]);
    assert_int_equal(start(&p, "kill -SEGV $$", -1, false, &err), TD_OK);
    assert_int_equal(td_proc_wait(&p, -1, &err), TD_OK);
    assert_non_null(strstr(td_proc_describe(p.status, said, sizeof said), "killed by signal 11"));
}

static void test_not_there(void **state)
{
    char *argv[] = {(char *)"no-such-program-anywhere", NULL};
    struct td_proc_options o = {.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
    struct td_error err = {0};
    struct td_proc p;

    (void)state;
    assert_int_equal(td_proc_start(&p, &o, &err), TD_ENOTFOUND);
    assert_int_equal(p.pid, 0);
    argv[0] = (char *)"/etc/passwd";
    td_error_clear(&err);
    assert_int_equal(td_proc_start(&p, &o, &err), TD_EIO);
}

static void test_deadline_and_end(void **state)
{
    struct td_error err = {0};
    struct td_proc p;
    pid_t group;

    (void)state;
    assert_int_equal(start(&p, "trap '' TERM; sleep 100 & wait; sleep 100", -1, true, &err), TD_OK);
    group = p.pid;
    assert_int_equal(td_proc_wait(&p, 50, &err), TD_ETIMEOUT);
    assert_true(p.pid > 0);
    td_proc_end(&p, 100); /* SIGTERM is ignored: SIGKILL follows, for the whole group */
    assert_int_equal(p.pid, 0);
    assert_true(WIFSIGNALED(p.status) && WTERMSIG(p.status) == SIGKILL);
    for (int i = 0; i < 100 && !kill(-group, 0); i++)
        td_clock_sleep_until(td_clock_mono_ns() + 20 * TD_NS_PER_MS);
    td_proc_end(&p, 0); /* nothing to do */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_result), cmocka_unit_test(test_not_there), cmocka_unit_test(test_deadline_and_end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
