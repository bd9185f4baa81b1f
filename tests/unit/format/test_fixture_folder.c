/* test_fixture_folder.c - a signal that comes when the folder of a pack was just made.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "format/archive.h"
#include "format/fixture_folder.h"

#define GOLDEN "fixtures/golden/v1-synthetic"

static char root[] = "/tmp/td-folder.XXXXXX", temporary[64], pack[64];
static int signal_to_raise; /* when a folder was made; 0: none */

/* In the place of libc's. */
char *mkdtemp(char *template)
{
    static unsigned n;

    snprintf(template + strlen(template) - 6, 7, "%06u", ((unsigned)getpid() + n++) % 1000000);
    if (mkdir(template, 0700))
        return NULL;
    if (signal_to_raise)
        kill(getpid(), signal_to_raise);
    return template;
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(temporary, sizeof temporary, "%s/tmp", root);
    snprintf(pack, sizeof pack, "%s/good.tdz", root);
    return mkdir(temporary, 0700) || setenv("TMPDIR", temporary, 1) || td_archive_pack(GOLDEN, pack, NULL);
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static void test_removed_after_a_signal(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    char folder[TD_PATH_MAX];
    int i, status;
    pid_t child;

    (void)state;
    for (i = 0; i < 3; i++) {
        child = fork();
        assert_true(child >= 0);
        if (!child) {
            signal(numbers[i], SIG_DFL);
            signal_to_raise = numbers[i];
            td_fixture_folder(pack, folder, NULL);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        assert_int_equal(rmdir(temporary), 0); /* it is empty */
        assert_int_equal(mkdir(temporary, 0700), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_removed_after_a_signal)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
