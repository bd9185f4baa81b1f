/* test_common_fs.c - bounded reading, private creation, atomic replacement, removal that follows no links.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "tests/unit/common/temp_root.h"

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

static void expect_refused(const char *name, const char *kind)
{
    struct td_buf b = TD_BUF_INIT(100);
    struct td_error err = {0}, other = {0};

    assert_int_equal(td_fs_open_member(at(name), O_RDONLY, &err), TD_ECORRUPT);
    assert_non_null(strstr(err.msg, kind));
    assert_int_equal(td_fs_open_member(at(name), O_RDWR, NULL), TD_ECORRUPT);
    assert_int_equal(td_fs_open_member(at(name), O_RDWR | O_CREAT | O_EXCL, &other), TD_EEXIST);
    assert_int_equal(td_fs_read_member(at(name), 100, &b, NULL), TD_ECORRUPT);
    td_buf_release(&b);
}

/* A file of a fixture is a regular file. */
static void test_member(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct td_buf b = TD_BUF_INIT(100);
    struct td_error err = {0};
    int fd, sock = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(mkdir(at("fx"), 0700), 0);
    assert_int_equal(td_fs_write_atomic(at("fx/file"), "abc", 3, &err), TD_OK);
    assert_int_equal(symlink("file", at("fx/link")), 0);
    assert_int_equal(symlink("none", at("fx/dangling")), 0);
    assert_int_equal(mkfifo(at("fx/fifo"), 0600), 0);
    assert_int_equal(mkdir(at("fx/folder"), 0700), 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", at("fx/socket"));
    assert_int_equal(bind(sock, (struct sockaddr *)&a, sizeof a), 0);
    close(sock);
    expect_refused("fx/link", "is a symbolic link");
    expect_refused("fx/dangling", "is a symbolic link");
    expect_refused("fx/fifo", "is a FIFO");
    expect_refused("fx/folder", "is a folder");
    expect_refused("fx/socket", "is a socket");
    assert_int_equal(td_fs_open_member(at("fx/none"), O_RDONLY, &err), TD_ENOTFOUND);
    assert_int_equal(td_fs_open_member(at("none/file"), O_RDONLY, NULL), TD_ENOTFOUND);
    assert_int_equal(symlink("fx", at("by-link")), 0); /* the folder may be a link */
    assert_int_equal(td_fs_read_member(at("by-link/file"), 100, &b, NULL), TD_OK);
    assert_string_equal(td_buf_str(&b), "abc");
    fd = td_fs_open_member(at("by-link/new"), O_RDWR | O_CREAT | O_EXCL, NULL);
    assert_true(fd >= 0);
    close(fd);
    td_buf_release(&b);
}

/* What a user named may be reached through links, and is a regular file at their end. */
static void test_regular(void **state)
{
    struct td_buf b = TD_BUF_INIT(100);
    struct td_error err = {0};
    const void *data;
    size_t n;

    (void)state;
    assert_int_equal(td_fs_read_regular(at("fx/link"), 100, &b, &err), TD_OK);
    assert_int_equal(td_fs_read_regular(at("fx/fifo"), 100, &b, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "is a FIFO"));
    assert_int_equal(td_fs_read_regular("/dev/zero", 100, &b, NULL), TD_EINVAL);
    assert_int_equal(td_fs_map(at("fx/fifo"), &data, &n, NULL), TD_EINVAL);
    assert_int_equal(td_fs_read_regular(at("fx/dangling"), 100, &b, NULL), TD_ENOTFOUND);
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_write), cmocka_unit_test(test_map), cmocka_unit_test(test_folders),
                                       cmocka_unit_test(test_member), cmocka_unit_test(test_regular)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
