/* test_report_text.c - which parts of the text stand there, and in which order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

/* A regressed report whose lanes tokens and collapse have these verdicts. */
static cJSON *report_of(const char *tokens, const char *collapse)
{
    char text[2048];
    struct td_error err = {0, ""};
    cJSON *r;

    snprintf(text, sizeof text,
             "{\"schema\":\"tapedeck-report-3\",\"verdict\":\"regressed\",\"exit\":1,"
             "\"headline\":\"WRONG\",\"line\":\"verdict: regressed\",\"names\":{\"old\":\"a\"},"
             "\"lanes\":{\"tokens\":{\"asked\":true,\"verdict\":\"%s\",\"headline\":\"t\"},"
             "\"collapse\":{\"asked\":true,\"verdict\":\"%s\",\"headline\":\"c\"}},"
             "\"tokens\":{\"forks\":[{\"old\":\"fork old\",\"new\":\"fork new\"}]},"
             "\"collapse\":{\"collapsed\":[{\"new\":\"!!!!\\u001b[31m\"}]}}",
             tokens, collapse);
    r = td_json_parse(text, strlen(text), &err);
    assert_non_null(r);
    return r;
}

static char *text_of(cJSON *report)
{
    const struct td_report_outputs o = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    td_report_print(report, f, &o);
    fclose(f);
    cJSON_Delete(report);
    return text;
}

static void the_text_of_a_fork_has_both_sides(void **state)
{
    char *t = text_of(report_of("inconclusive", "pass"));

    (void)state;
    assert_non_null(strstr(t, "\nTEXT   old  fork old\n       new  fork new\n"));
    free(t);
}

/* A collapsed answer comes before one that forks, without control characters. */
static void the_text_of_a_collapse_comes_first(void **state)
{
    char *t = text_of(report_of("regressed", "regressed"));

    (void)state;
    assert_non_null(strstr(t, "\nTEXT   new  !!!!"));
    assert_null(strstr(t, "fork"));
    assert_null(strchr(t, '\033'));
    free(t);
}

static void lanes_that_passed_show_no_text(void **state)
{
    char *t = text_of(report_of("pass", "pass"));

    (void)state;
    assert_null(strstr(t, "TEXT"));
    free(t);
}

/* Five lanes share six lines: none may take the line of another. */
static void every_lane_that_failed_has_a_line(void **state)
{
    static const char *const LANES[] = {"tokens", "collapse", "scores", "ops", "speed"};
    cJSON *r = report_of("regressed", "regressed"), *lanes = cJSON_GetObjectItem(r, "lanes");
    char line[300], *t;
    size_t i;

    (void)state;
    memset(line, 'w', 280);
    line[90] = line[180] = ' ';
    line[280] = '\0';
    for (i = 0; i < 5; i++) {
        cJSON *lane = cJSON_CreateObject();

        cJSON_AddBoolToObject(lane, "asked", true);
        cJSON_AddStringToObject(lane, "verdict", i == 4 ? "inconclusive" : "regressed");
        cJSON_AddStringToObject(lane, "headline", line);
        cJSON_DeleteItemFromObject(lanes, LANES[i]);
        cJSON_AddItemToObject(lanes, LANES[i], lane);
    }
    t = text_of(r);
    assert_non_null(strstr(t, "WHY    x tokens"));
    assert_non_null(strstr(t, "\n       x collapse"));
    assert_non_null(strstr(t, "\n       x scores"));
    assert_non_null(strstr(t, "\n       x ops"));
    assert_non_null(strstr(t, "\n       ? speed"));
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_a_fork_has_both_sides),
        cmocka_unit_test(the_text_of_a_collapse_comes_first),
        cmocka_unit_test(lanes_that_passed_show_no_text),
        cmocka_unit_test(every_lane_that_failed_has_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
