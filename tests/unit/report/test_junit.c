/* test_junit.c - a suite counts its cases, and is well-formed whatever the texts hold. (e2e/230
 * checks it against the rules of the schemas.) SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/junit.h"

static void add(struct td_junit *j, const char *name, enum td_junit_result result,
                const char *message, const char *body)
{
    const struct td_junit_case c = {"lane", name, 1.25, result, "type", message, body};

    td_junit_add(j, &c);
}

static void cases_are_counted_and_texts_escaped(void **state)
{
    static const char expected[] =
        "  <testsuite name=\"fx/a.b\" id=\"3\" package=\"tapedeck.fx_a_b\" hostname=\"localhost\" "
        "timestamp=\"2026-11-23T08:19:17\" time=\"2.500\" tests=\"4\" failures=\"1\" errors=\"1\" "
        "skipped=\"1\">\n"
        "    <properties>\n      <property name=\"coverage\" value=\"a &lt; b\"/>\n"
        "    </properties>\n"
        "    <testcase classname=\"tapedeck.fx_a_b.lane\" name=\"tokens\" time=\"1.250\"/>\n"
        "    <testcase classname=\"tapedeck.fx_a_b.lane\" name=\"a&quot;b&amp;c\" time=\"1.250\">\n"
        "      <failure message=\"line\\n\\x1btwo \xEF\xBF\xBD\" "
        "type=\"type\">one\n]]&gt;\\x01</failure>\n"
        "    </testcase>\n"
        "    <testcase classname=\"tapedeck.fx_a_b.lane\" name=\"x y\" time=\"1.250\">\n"
        "      <error message=\"why\" type=\"type\"></error>\n    </testcase>\n"
        "    <testcase classname=\"tapedeck.fx_a_b.lane\" name=\"unnamed\" time=\"1.250\">\n"
        "      <skipped message=\"\"/>\n    </testcase>\n"
        "    <system-out>all &amp; everything\n</system-out>\n    <system-err/>\n  </testsuite>\n";
    struct td_buf out = TD_BUF_INIT(1 << 16);
    struct td_junit j;

    (void)state;
    td_junit_init(&j, "fx/a.b");
    td_junit_property(&j, "coverage", "a < b");
    add(&j, "tokens", TD_JUNIT_PASSED, "not shown", "not shown");
    add(&j, "a\"b&c", TD_JUNIT_FAILED, "line\n\033two \xFF", "one\n]]>\001");
    add(&j, "  x   y ", TD_JUNIT_ERROR, "why", "");
    add(&j, " ", TD_JUNIT_SKIPPED, "", "");
    td_junit_write(&j, 3, "2026-11-23T08:19:17Z", 2.5, "all & everything\n", &out);
    assert_string_equal(td_buf_str(&out), expected);
    td_junit_release(&j);
    td_buf_release(&out);
}

/* Text of one attribute in a suite with these figures. */
static void check_head(const char *stamp, double seconds, const char *expected)
{
    struct td_buf out = TD_BUF_INIT(1 << 16);
    struct td_junit j;

    td_junit_init(&j, "");
    td_junit_write(&j, 0, stamp, seconds, "", &out);
    if (!strstr(td_buf_str(&out), expected))
        fail_msg("no %s in %s", expected, td_buf_str(&out));
    td_junit_release(&j);
    td_buf_release(&out);
}

static void times_have_the_form_of_the_schemas(void **state)
{
    (void)state;
    check_head("2026-11-23T08:19:17.123Z", 1, "timestamp=\"2026-11-23T08:19:17\" time=\"1.000\"");
    check_head("yesterday", 1, "timestamp=\"1970-01-01T00:00:00\"");
    check_head("", NAN, "time=\"0.000\"");
    check_head("", -1, "time=\"0.000\"");
    check_head("", INFINITY, "time=\"0.000\"");
    check_head("", 1, "name=\"unnamed\" id=\"0\" package=\"tapedeck.unnamed\"");
}

static void a_long_body_is_cut(void **state)
{
    struct td_buf out = TD_BUF_INIT(1 << 22);
    char *body = malloc(1 << 20);
    struct td_junit j;

    (void)state;
    assert_non_null(body);
    memset(body, 'x', (1 << 20) - 1);
    body[(1 << 20) - 1] = '\0';
    td_junit_init(&j, "a");
    add(&j, body, TD_JUNIT_FAILED, body, body);
    td_junit_write(&j, 0, "", 0, body, &out);
    assert_false(out.failed);
    assert_in_range(out.len, 1 << 16, 1 << 18);
    assert_non_null(strstr(out.data, "x...</failure>"));
    td_junit_release(&j);
    td_buf_release(&out);
    free(body);
}

static void a_suite_that_is_too_large_is_reported(void **state)
{
    struct td_buf out = TD_BUF_INIT(1000);
    struct td_junit j;
    int i;

    (void)state;
    td_junit_init(&j, "a");
    for (i = 0; i < 20; i++)
        add(&j, "case", TD_JUNIT_PASSED, "", "");
    td_junit_write(&j, 0, "", 0, "", &out);
    assert_true(out.failed);
    td_junit_release(&j);
    td_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_are_counted_and_texts_escaped),
        cmocka_unit_test(times_have_the_form_of_the_schemas),
        cmocka_unit_test(a_long_body_is_cut),
        cmocka_unit_test(a_suite_that_is_too_large_is_reported),
    };

    return cmocka_run_group_tests_name("junit", tests, NULL, NULL);
}
