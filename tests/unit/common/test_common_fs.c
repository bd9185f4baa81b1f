/* test_common_fs.c - bounded reading, private creation, atomic replacement, removal that follows no links.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"

static char root[] = "/tmp/td-fs-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static const char *at(const char *name)
{
    static char out[4][200];
    static int turn;
    char *p = out[turn++ & 3];

    snprintf(p, 200, "%s/%s", root, name);
    return p;
}

static void test_read_write(void **state)
{
    struct td_buf b = TD_BUF_INIT(1 << 20), exact = TD_BUF_INIT(70000), small = TD_BUF_INIT(69999);
    struct td_error err = {0};
    char *big = calloc(1, 70000);
    struct stat st;

    (void)state;
    umask(0);
    assert_int_equal(td_fs_write_atomic(at("f"), "old", 3, &err), TD_OK);
    assert_int_equal(td_fs_write_atomic(at("f"), big, 70000, &err), TD_OK);
    assert_int_equal(stat(at("f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(td_fs_read(at("f"), 1 << 20, &b, &err), TD_OK);
    assert_int_equal(b.len, 70000);
    assert_int_equal(td_fs_read(at("f"), 70000, &exact, &err), TD_OK);
    assert_int_equal(td_fs_read(at("f"), 69999, &small, &err), TD_ELIMIT);
    td_error_clear(&err);
    assert_int_equal(td_fs_read(at("none"), 10, &b, &err), TD_ENOTFOUND);
    td_error_clear(&err);
    assert_int_equal(td_fs_write_atomic(at("no/such/folder"), "x", 1, &err), TD_EIO);
    td_buf_release(&b);
    td_buf_release(&exact);
    td_buf_release(&small);
    free(big);
}

static void test_map(void **state)
{
    struct td_error err = {0};
    const void *data;
    size_t n;

    (void)state;
    assert_int_equal(td_fs_write_atomic(at("mapped"), "abc", 3, &err), TD_OK);
    assert_int_equal(td_fs_map(at("mapped"), &data, &n, &err), TD_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(data, "abc", 3);
    munmap((void *)data, n);
    assert_int_equal(td_fs_write_atomic(at("empty"), "", 0, &err), TD_OK);
    assert_int_equal(td_fs_map(at("empty"), &data, &n, &err), TD_OK);
    assert_true(!data && !n);
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    alarm(10);                         /* one that waits for a writer ends here */
    assert_int_equal(td_fs_map(at("fifo"), &data, &n, &err), TD_EINVAL);
    alarm(0);
    assert_true(!data && !n);
    td_error_clear(&err);
    assert_int_equal(td_fs_map(root, &data, &n, &err), TD_EINVAL);
    td_error_clear(&err);
    assert_int_equal(td_fs_map(at("none"), &data, &n, &err), TD_ENOTFOUND);
}

static void test_folders(void **state)
{
    struct td_error err = {0};
    char p[16];
    struct stat st;

    (void)state;
    assert_int_equal(td_fs_mkdirs(at("a/b/c"), &err), TD_OK);
    assert_int_equal(td_fs_mkdirs(at("a/b/c/"), &err), TD_OK); /* again */
    assert_int_equal(stat(at("a/b"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_true(td_fs_is_dir(at("a/b")) && !td_fs_is_dir(at("x")));
    assert_int_equal(td_fs_write_atomic(at("keep"), "x", 1, &err), TD_OK);
    assert_int_equal(symlink(at("keep"), at("a/b/link")), 0);
    assert_int_equal(symlink(root, at("a/b/up")), 0);
    assert_int_equal(td_fs_mkdirs(at("keep/x"), &err), TD_EIO);
    td_error_clear(&err);
    assert_int_equal(td_fs_remove_tree(at("a"), &err), TD_OK);
    assert_true(!td_fs_exists(at("a")) && td_fs_exists(at("keep")));
    assert_int_equal(td_fs_join(p, sizeof p, "a", "b", &err), TD_OK);
    assert_string_equal(p, "a/b");
    assert_int_equal(td_fs_join(p, sizeof p, "a/", "b", &err), TD_OK);
    assert_string_equal(p, "a/b");
    assert_int_equal(td_fs_join(p, sizeof p, "0123456789", "012345", &err), TD_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_write), cmocka_unit_test(test_map), cmocka_unit_test(test_folders)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
