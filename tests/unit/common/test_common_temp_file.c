/* test_common_temp_file.c - temporary files: names that nobody can guess, nothing followed, nothing left.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/outfile.h"
#include "common/proc.h"
#include "common/temp_file.h"
#include "tests/unit/common/temp_root.h"

static int count_files(void)
{
    DIR *d = opendir(root);
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void assert_holds(const char *path, const char *text)
{
    struct td_buf b = TD_BUF_INIT(1000);

    assert_int_equal(td_fs_read(path, 1000, &b, NULL), TD_OK);
    assert_string_equal(td_buf_str(&b), text);
    td_buf_release(&b);
}

/* Names that earlier versions took, with the process id in them: a link there leads to a file that
 * must not be written, and a file there must not be removed. */
static void test_squatted(void **state)
{
    char atomic[200], outfile[200];

    (void)state;
    snprintf(atomic, sizeof atomic, "%s/f.tmp.%d", root, (int)getpid());
    snprintf(outfile, sizeof outfile, "%s/.tapedeck-%d.tmp", root, (int)getpid());
    assert_int_equal(td_fs_write_atomic(at("victim"), "mine", 4, NULL), TD_OK);
    assert_int_equal(symlink("victim", atomic), 0);
    assert_int_equal(symlink("victim", outfile), 0);
    assert_int_equal(td_fs_write_atomic(at("f"), "new", 3, NULL), TD_OK);
    assert_int_equal(td_outfile_write(at("g"), "out", 3, NULL), TD_OK);
    assert_holds(at("victim"), "mine");
    assert_holds(at("f"), "new");
    assert_holds(at("g"), "out");
    assert_int_equal(access(outfile, F_OK), 0);
    assert_int_equal(access(atomic, F_OK), 0);
    assert_int_equal(count_files(), 5);
    unlink(atomic);
    unlink(outfile);
}

static void test_names(void **state)
{
    char a[TD_PATH_MAX], b[TD_PATH_MAX];
    int fd;

    (void)state;
    assert_int_equal(td_temp_name(at("x"), a, NULL), TD_OK);
    assert_int_equal(td_temp_name(at("x"), b, NULL), TD_OK);
    assert_string_not_equal(a, b);
    assert_true(td_temp_is(strrchr(a, '/') + 1));
    assert_false(td_temp_is("manifest.json"));
    assert_false(td_temp_is(".tapedeck-0123456789abcdeg.tmp"));
    assert_false(td_temp_is(".tapedeck-0123456789abcdef.tmp.x"));
    assert_int_equal(td_temp_name("/x", a, NULL), TD_OK);
    assert_int_equal(strncmp(a, "/.tapedeck-", 11), 0);
    fd = td_temp_open(at("x"), 0600, a, NULL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "abc", 3), 3);
    close(fd);
    assert_int_equal(td_temp_rename(a, at("x"), NULL), TD_OK);
    assert_holds(at("x"), "abc");
    assert_int_equal(td_temp_open("/nowhere/x", 0600, a, NULL), TD_EIO);
}

/* A file that may not grow is an error that says what to do, and no signal ends the program. */
static void test_too_large(void **state)
{
    const struct rlimit small = {1000, RLIM_INFINITY};
    struct rlimit was;
    struct td_error err = {0};
    char big[2000] = "";
    int before = count_files();

    (void)state;
    td_proc_catch_file_limit();
    getrlimit(RLIMIT_FSIZE, &was);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(td_fs_write_atomic(at("f"), big, sizeof big, &err), TD_EIO);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_non_null(strstr(err.msg, "f: cannot write: File too large"));
    assert_non_null(strstr(err.msg, "ulimit -f"));
    assert_int_equal(count_files(), before);
    assert_holds(at("f"), "new");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_squatted), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_too_large)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
