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

/* verbose: with all its details */
static char *printed(cJSON *report, bool verbose)
{
    const struct td_report_outputs o = {.verbose = verbose};
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
    char *t = printed(report_of("inconclusive", "pass"), false);

    (void)state;
    assert_non_null(strstr(t, "\nTEXT   old  fork old\n       new  fork new\n"));
    free(t);
}

/* A collapsed answer comes before one that forks, without control characters. */
static void the_text_of_a_collapse_comes_first(void **state)
{
    char *t = printed(report_of("regressed", "regressed"), false);

    (void)state;
    assert_non_null(strstr(t, "\nTEXT   new  !!!!"));
    assert_null(strstr(t, "fork"));
    assert_null(strchr(t, '\033'));
    free(t);
}

static void lanes_that_passed_show_no_text(void **state)
{
    char *t = printed(report_of("pass", "pass"), false);

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
    t = printed(r, false);
    assert_non_null(strstr(t, "WHY    x tokens"));
    assert_non_null(strstr(t, "\n       x collapse"));
    assert_non_null(strstr(t, "\n       x scores"));
    assert_non_null(strstr(t, "\n       x ops"));
    assert_non_null(strstr(t, "\n       ? speed"));
    free(t);
}

static void details_list_answers_of_the_same_tokens(void **state)
{
    cJSON *r = report_of("regressed", "pass");
    struct td_error err = {0, ""};
    static const char LIST[] =
        "[{\"prompt_id\":\"short-1\",\"repeat\":2,\"what\":\"end\",\"beyond\":true,"
        "\"old_end\":\"stop\",\"new_end\":\"length\",\"old\":\"one\",\"new\":\"one\"},"
        "{\"prompt_id\":\"short-2\",\"repeat\":0,\"what\":\"text\",\"beyond\":true,"
        "\"old_end\":\"stop\",\"new_end\":\"stop\",\"old\":\"two\",\"new\":\"tvvo\"}]";
    char *t;

    (void)state;
    cJSON_AddItemToObject(r, "fixtures", td_json_parse("[{\"dir\":\"a\"}]", 13, &err));
    cJSON_AddItemToObject(cJSON_GetObjectItem(r, "tokens"), "unlike",
                          td_json_parse(LIST, strlen(LIST), &err));
    t = printed(r, true);
    assert_non_null(strstr(t, "answers of the same tokens with another text or end"));
    assert_non_null(strstr(t, "  short-1, repeat 2: another end: stop, now length\n"));
    assert_non_null(strstr(t, "  short-2, repeat 0: another text\n    old   two\n    new   tvvo\n"));
    free(t);
}

/* What FIRST says of an op for this reason. */
static char *first_of(const char *why)
{
    cJSON *r = report_of("regressed", "pass"), *blame;
    struct td_error err = {0, ""};
    char text[400];

    snprintf(text, sizeof text,
             "{\"pattern\":\"every op\",\"bad\":1,\"good\":0,\"first\":{\"op\":7,\"kernel\":\"k\","
             "\"why\":\"%s\",\"candidate\":{\"row_at\":3,\"col_at\":4,\"unstable\":3}}}",
             why);
    blame = td_json_parse(text, strlen(text), &err);
    assert_non_null(blame);
    cJSON_AddItemToObject(r, "blame", blame);
    return printed(r, false);
}

/* No op is called undecided where none was. */
static void every_op_is_bad(void **state)
{
    cJSON *r = report_of("regressed", "pass");
    struct td_error err = {0, ""};
    const char blame[] = "{\"pattern\":\"every op\",\"bad\":193,\"good\":0}",
               ops[] = "{\"judged\":194,\"undecided\":1,\"broken\":0}";
    char *t;

    (void)state;
    cJSON_AddItemToObject(r, "blame", td_json_parse(blame, strlen(blame), &err));
    t = printed(cJSON_Duplicate(r, true), false);
    assert_non_null(strstr(t, "every op is bad (193)"));
    free(t);
    cJSON_DeleteItemFromObject(r, "ops");
    cJSON_AddItemToObject(r, "ops", td_json_parse(ops, strlen(ops), &err));
    t = printed(r, false);
    assert_non_null(strstr(t, "every op that could be decided is bad (193)"));
    free(t);
}

/* The row and column are those of the largest error: of an op that varies they are not at fault. */
static void an_unstable_op_has_no_worst_row(void **state)
{
    char *t = first_of("error 36.3, element limit 4");

    (void)state;
    assert_non_null(strstr(t, "worst row 3, column 4"));
    free(t);
    t = first_of("unstable: 3 elements differ between 4 runs");
    assert_non_null(strstr(t, "3 elements differ"));
    assert_null(strstr(t, "worst row"));
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_a_fork_has_both_sides),
        cmocka_unit_test(the_text_of_a_collapse_comes_first),
        cmocka_unit_test(lanes_that_passed_show_no_text),
        cmocka_unit_test(every_lane_that_failed_has_a_line),
        cmocka_unit_test(details_list_answers_of_the_same_tokens),
        cmocka_unit_test(every_op_is_bad), cmocka_unit_test(an_unstable_op_has_no_worst_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
