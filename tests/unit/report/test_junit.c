/* test_junit.c - a JUnit report counts its cases and is well-formed whatever the texts hold.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fs.h"
#include "report/junit.h"

static void cases_are_counted_and_texts_escaped(void **state)
{
    static const char expected[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        "  <testsuite name=\"tapedeck\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\">\n"
        "    <properties><property name=\"coverage\" value=\"a &lt; b\"/></properties>\n"
        "    <testcase classname=\"tapedeck.lane\" name=\"tokens\"/>\n"
        "    <testcase classname=\"tapedeck.lane\" name=\"a&quot;b&amp;c\"><failure message=\"line  two \xEF\xBF\xBD\"/></testcase>\n"
        "    <testcase classname=\"tapedeck.op\" name=\"x\"><error message=\"why\"/></testcase>\n"
        "    <testcase classname=\"tapedeck.op\" name=\"y\"><skipped message=\"\"/></testcase>\n"
        "  </testsuite>\n</testsuites>\n";
    char path[] = "/tmp/test_junit_XXXXXX";
    struct td_buf text = TD_BUF_INIT(1 << 16);
    struct td_error err = {0, ""};
    struct td_junit j;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    td_junit_init(&j);
    td_junit_property(&j, "coverage", "a < b");
    td_junit_case(&j, "lane", "tokens", TD_JUNIT_PASSED, "not shown");
    td_junit_case(&j, "lane", "a\"b&c", TD_JUNIT_FAILED, "line\n\033two \xFF");
    td_junit_case(&j, "op", "x", TD_JUNIT_ERROR, "why");
    td_junit_case(&j, "op", "y", TD_JUNIT_SKIPPED, "");
    assert_int_equal(td_junit_save(&j, path, &err), TD_OK);
    td_junit_release(&j);
    assert_int_equal(td_fs_read(path, 1 << 16, &text, &err), TD_OK);
    assert_string_equal(td_buf_str(&text), expected);
    td_buf_release(&text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_are_counted_and_texts_escaped)};

    return cmocka_run_group_tests_name("junit", tests, NULL, NULL);
}
