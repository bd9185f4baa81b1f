/* test_report.c - reports without a comparison, joined reports, the files that are written.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "report/report.h"

static cJSON *report_of(const char *verdict, const char *headline, int code)
{
    cJSON *r = td_report_broken("tapedeck test 1", TD_EXIT_BROKEN, "to be changed");

    cJSON_SetValuestring(cJSON_GetObjectItem(r, "verdict"), verdict);
    cJSON_ReplaceItemInObject(r, "headline", cJSON_CreateString(headline));
    cJSON_SetNumberValue(cJSON_GetObjectItem(r, "exit"), code);
    return r;
}

static void a_broken_report_says_why(void **state)
{
    cJSON *r = td_report_broken("tapedeck gate 1", TD_EXIT_BROKEN, "%s: no \"such\" fixture", "fx");

    (void)state;
    assert_string_equal(td_json_get_str(r, "schema", ""), "tapedeck-report-3");
    assert_string_equal(td_report_verdict(r), "broken");
    assert_string_equal(td_json_get_str(r, "headline", ""), "BROKEN");
    assert_string_equal(td_json_get_str(r, "cause", ""), "fx: no \"such\" fixture");
    assert_string_equal(td_json_get_str(r, "line", ""), "verdict: broken cause=\"fx: no \"such\" fixture\"");
    assert_int_equal(td_report_exit(r), TD_EXIT_BROKEN);
    assert_true(cJSON_IsArray(td_json_get(r, "next")));
    cJSON_Delete(r);
}

/* The gravest verdict wins; exit code 2 outranks all. */
static void joined_reports_have_the_gravest_verdict(void **state)
{
    cJSON *pass = report_of("pass", "PASS", 0), *slower = report_of("regressed", "SLOWER", 1),
          *wrong = report_of("regressed", "WRONG", 1), *unsure = report_of("inconclusive", "INCONCLUSIVE", 3),
          *broken = report_of("broken", "BROKEN", 4), *usage = report_of("usage", "USAGE", 2);
    const struct { cJSON *reports[4]; size_t n; const char *headline, *line; int code; } cases[] = {
        {{pass, pass}, 2, "PASS", "verdict: pass fixtures=2 pass=2", 0},
        {{pass, unsure}, 2, "INCONCLUSIVE", "verdict: inconclusive fixtures=2 inconclusive=1 pass=1", 3},
        {{slower, pass, unsure}, 3, "SLOWER", "verdict: regressed fixtures=3 regressed=1 inconclusive=1 pass=1", 1},
        {{slower, wrong}, 2, "WRONG", "verdict: regressed fixtures=2 regressed=2", 1},
        {{wrong, broken, pass, pass}, 4, "BROKEN", "verdict: broken fixtures=4 broken=1 regressed=1 pass=2", 4},
        {{usage, broken}, 2, "USAGE", "verdict: usage fixtures=2 usage=1 broken=1", 2},
        {{NULL}, 0, "BROKEN", "verdict: broken fixtures=0", 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *r = td_report_join(cases[i].reports, cases[i].n);

        assert_true(td_report_is_joined(r));
        assert_string_equal(td_json_get_str(r, "headline", ""), cases[i].headline);
        assert_string_equal(td_json_get_str(r, "line", ""), cases[i].line);
        assert_int_equal(td_report_exit(r), cases[i].code);
        assert_int_equal(cJSON_GetArraySize(td_json_get(r, "reports")), (int)cases[i].n);
        cJSON_Delete(r);
    }
    for (cJSON **p = (cJSON *[]){pass, slower, wrong, unsure, broken, usage, NULL}; *p; p++)
        cJSON_Delete(*p);
}

/* A verdict that is not known, or missing, is never a pass. */
static void an_unknown_verdict_is_broken(void **state)
{
    cJSON *odd = report_of("splendid", "PASS", 0), *empty = cJSON_CreateObject();

    (void)state;
    assert_string_equal(td_report_verdict(odd), "broken");
    assert_string_equal(td_report_verdict(empty), "broken");
    assert_int_equal(td_report_exit(empty), TD_EXIT_BROKEN);
    assert_string_equal(td_report_headline("regressed", true), "SLOWER");
    assert_string_equal(td_report_headline("regressed", false), "WRONG");
    assert_string_equal(td_report_headline("pass", true), "PASS");
    cJSON_Delete(odd);
    cJSON_Delete(empty);
}

static void a_written_report_is_read_again(void **state)
{
    char path[] = "/tmp/test_report_XXXXXX";
    const struct td_report_outputs o = {.json = path};
    struct td_error err = {0, ""};
    cJSON *r = td_report_broken("tapedeck test 1", TD_EXIT_BROKEN, "why"), *again;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(td_report_outputs_check(&o, &err), TD_OK);
    assert_int_equal(td_report_write(r, &o, &err), TD_OK);
    again = td_report_load(path, &err);
    assert_non_null(again);
    assert_true(cJSON_Compare(r, again, true));
    cJSON_Delete(again);
    cJSON_ReplaceItemInObject(r, "schema", cJSON_CreateString("tapedeck-report-1"));
    assert_int_equal(td_report_write(r, &o, &err), TD_OK);
    assert_null(td_report_load(path, &err));
    assert_int_equal(err.code, TD_EVERSION);
    cJSON_Delete(r);
    unlink(path);
}

static void paths_are_tried_before_the_work(void **state)
{
    const struct td_report_outputs bad = {.json = "/nonexistent/x.json"}, folder = {.junit = "/tmp"},
                                   twice = {.json = "-", .junit = "-"}, once = {.json = "-"};
    struct td_error err = {0, ""};

    (void)state;
    assert_int_equal(td_report_outputs_check(&bad, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "--json: /nonexistent/x.json"));
    td_error_clear(&err);
    assert_int_equal(td_report_outputs_check(&folder, &err), TD_EINVAL);
    td_error_clear(&err);
    assert_int_equal(td_report_outputs_check(&twice, &err), TD_EINVAL);
    td_error_clear(&err);
    assert_int_equal(td_report_outputs_check(&once, &err), TD_OK);
    assert_ptr_equal(td_report_text_stream(&once), stderr);
    assert_ptr_equal(td_report_text_stream(&folder), stdout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_report_says_why),
        cmocka_unit_test(joined_reports_have_the_gravest_verdict),
        cmocka_unit_test(an_unknown_verdict_is_broken),
        cmocka_unit_test(a_written_report_is_read_again),
        cmocka_unit_test(paths_are_tried_before_the_work),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
