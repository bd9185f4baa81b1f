/* test_header_file.c - headers by a descriptor: read once, closed, and bounded.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/header_file.h"

static void by_descriptor(void **state)
{
    struct td_arg_list given = {{"A: 1", "B: 2"}, 2}, got = {{"first: 0", NULL, "last: 3"}, 3};
    char name[40];
    int fd = td_header_file_make(&given, NULL);

    (void)state;
    assert_true(fd > 2);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC); /* only who is told to keep it gets it */
    snprintf(name, sizeof name, "@/dev/fd/%d", fd);
    got.item[1] = name;
    assert_int_equal(td_header_file_expand(&got, NULL), TD_OK);
    assert_int_equal(got.n, 4);
    assert_string_equal(got.item[0], "first: 0");
    assert_string_equal(got.item[1], "A: 1");
    assert_string_equal(got.item[2], "B: 2");
    assert_string_equal(got.item[3], "last: 3");
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* no build that is started later inherits it */
    assert_int_equal(errno, EBADF);
}

static void bounded(void **state)
{
    static const struct td_arg_list many = {{"a:1"}, 1};
    struct td_arg_list full = {.n = TD_ARG_LIST_MAX};
    struct td_error err = {0};
    char name[40];
    int i, fd = td_header_file_make(&many, NULL);

    (void)state;
    for (i = 0; i < TD_ARG_LIST_MAX; i++)
        full.item[i] = "x:1";
    snprintf(name, sizeof name, "@/dev/fd/%d", fd);
    full.item[0] = name;
    assert_int_equal(td_header_file_expand(&full, &err), TD_OK);
    assert_int_equal(full.n, TD_ARG_LIST_MAX);
    fd = td_header_file_make(&(struct td_arg_list){{"a:1", "b:2"}, 2}, NULL);
    snprintf(name, sizeof name, "@/dev/fd/%d", fd);
    full.item[0] = name;
    assert_int_equal(td_header_file_expand(&full, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "more than"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_descriptor), cmocka_unit_test(bounded)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
