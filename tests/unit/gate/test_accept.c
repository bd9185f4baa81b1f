/* test_accept.c - what an acceptance excuses, and what it does not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate/accept.h"
#include "gate/accept_file.h"
#include "gate/findings.h"
#include "gate/gate_verdict.h"

#define TODAY 20000 /* 2024-10-04 */

static cJSON *parse(const char *text)
{
    struct td_error err = {0, ""};
    cJSON *j = td_json_parse(text, strlen(text), &err);

    if (!j)
        fail_msg("%s", err.msg);
    return j;
}

/* A report whose lane ops regressed: one group with this error, this many ops. */
static cJSON *report_of(const char *score, const char *shape, const char *note)
{
    char text[4000];

    snprintf(text, sizeof text,
             "{\"schema\":\"tapedeck-report-3\",\"tool\":\"t\",\"verdict\":\"regressed\",\"exit\":1,"
             "\"headline\":\"WRONG\",\"cause\":null,\"line\":\"verdict: regressed ops=1/4 first=x\","
             "\"fixtures\":[{\"role\":\"baseline\",\"dir\":\"fx\",\"id\":\"abc\"}],"
             "\"lanes\":{\"ops\":{\"asked\":true,\"verdict\":\"regressed\",\"headline\":\"bad\","
             "\"notes\":[{\"verdict\":\"regressed\",\"text\":\"%s\"}]},"
             "\"speed\":{\"asked\":false,\"verdict\":\"not judged\",\"headline\":\"\",\"notes\":[]}},"
             "\"absent\":[],\"accepted\":[],\"ops\":{\"groups\":[{\"kind\":\"gemm\",\"shape\":\"%s\","
             "\"m_class\":\"M=1\",\"dtype\":\"F16\",\"judged\":4,\"bad\":1,\"new_score\":%s,"
             "\"new_rms\":1}],\"not_ok\":[]}}",
             note, shape, score);
    return parse(text);
}

/* The file after somebody accepted the report. */
static cJSON *accepted_of(cJSON *report, int64_t until)
{
    cJSON *file = parse("{\"schema\":\"tapedeck-accepted-1\",\"accepted\":[]}");
    struct td_error err = {0, ""};

    assert_int_equal(td_accept_add(file, report, "why", "who", TODAY, until, &err), 1);
    assert_int_equal(td_accept_check(file, TODAY, &err), TD_OK);
    return file;
}

static const char *const NOTE = "1 of 4 ops are bad: the worst error is 20.5, limit 4";

static cJSON *accept_file(void)
{
    cJSON *report = report_of("20.5", "a", NOTE), *file = accepted_of(report, TODAY + 10);

    cJSON_Delete(report);
    return file;
}

/* The exit code of a report once the file is applied. */
static int exit_with(const cJSON *file, int64_t today, cJSON *report)
{
    struct td_error err = {0, ""};
    int code;

    assert_int_equal(td_accept_apply(file, today, report, &err), TD_OK);
    code = td_report_exit(report);
    cJSON_Delete(report);
    return code;
}

static void test_the_same_findings_are_excused_until_the_date(void **state)
{
    cJSON *file = accept_file(), *report = report_of("20.5", "a", NOTE);
    struct td_error err = {0, ""};

    (void)state;
    assert_int_equal(td_accept_apply(file, TODAY + 10, report, &err), TD_OK);
    assert_int_equal(td_report_exit(report), TD_EXIT_OK);
    assert_string_equal(td_json_get_str(report, "line", ""),
                        "verdict: pass accepted=ops ops=1/4 first=x");
    assert_string_equal(td_json_get_str(report, "headline", ""), "PASS");
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY + 11, report_of("20.5", "a", NOTE)), 1);
    cJSON_Delete(file);
}

static void test_other_numbers_of_the_same_sentence_are_excused(void **state)
{
    cJSON *file = accept_file();

    (void)state;
    assert_int_equal(exit_with(file, TODAY, report_of("39", "a", "3 of 17 ops are bad: the worst error is 3.9e+01, limit 4")), 0);
    cJSON_Delete(file);
}

/* What the report says of the first entry. */
static void expect_state(const cJSON *file, int64_t today, cJSON *report, const char *state)
{
    struct td_error err = {0, ""};

    assert_int_equal(td_accept_apply(file, today, report, &err), TD_OK);
    assert_string_equal(td_json_get_str(cJSON_GetArrayItem(td_json_get(report, "accepted"), 0), "state", ""), state);
    cJSON_Delete(report);
}

static void test_a_report_says_what_an_entry_does(void **state)
{
    cJSON *file = accept_file(), *fine = report_of("20.5", "a", NOTE);

    (void)state;
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(cJSON_GetObjectItem(fine, "lanes"), "ops"), "verdict", cJSON_CreateString("pass"));
    expect_state(file, TODAY, report_of("20.5", "a", NOTE), "applied");
    expect_state(file, TODAY, report_of("42", "a", NOTE), "other findings");
    expect_state(file, TODAY, fine, "not needed");
    expect_state(file, TODAY + 11, report_of("20.5", "a", NOTE), "expired");
    cJSON_Delete(file);
}

static void test_nothing_else_is_excused(void **state)
{
    cJSON *file = accept_file(), *report;

    (void)state;
    /* a larger error, one of less than half, infinity, another shape, another sentence */
    assert_int_equal(exit_with(file, TODAY, report_of("10", "a", NOTE)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of("42", "a", NOTE)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of("\"Infinity\"", "a", NOTE)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of("\"NaN\"", "a", NOTE)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of("20.5", "b", NOTE)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of("20.5", "a", "elements differ between runs")), 1);
    /* another fixture */
    report = report_of("20.5", "a", NOTE);
    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(cJSON_GetObjectItem(report, "fixtures"), 0), "id",
                              cJSON_CreateString("abd"));
    assert_int_equal(exit_with(file, TODAY, report), 1);
    /* evidence is missing, too */
    report = report_of("20.5", "a", NOTE);
    cJSON_DeleteItemFromObject(report, "absent");
    cJSON_AddItemToObject(report, "absent", parse("[{\"lane\":\"ops\",\"verdict\":\"inconclusive\"}]"));
    assert_int_equal(exit_with(file, TODAY, report), 1);
    cJSON_Delete(file);
}

/* A report of a group "a", and a group "b" that has bad ops or none; ops of "a" are bad this way. */
static cJSON *report_of_two(const char *score, int a_bad, int b_bad, const char *way)
{
    cJSON *report = report_of(score, "a", NOTE), *ops = cJSON_GetObjectItem(report, "ops"),
          *groups = cJSON_GetObjectItem(ops, "groups");
    char text[400];

    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(groups, 0), "bad", cJSON_CreateNumber(a_bad));
    snprintf(text, sizeof text, "{\"kind\":\"gemm\",\"shape\":\"b\",\"m_class\":\"M=1\","
             "\"dtype\":\"F16\",\"judged\":4,\"bad\":%d,\"new_score\":30,\"new_rms\":1}", b_bad);
    cJSON_AddItemToArray(groups, parse(text));
    snprintf(text, sizeof text, "{\"kind\":\"gemm\",\"shape\":\"a\",\"m_class\":\"M=1\","
             "\"status\":\"ok\",\"result\":\"bad\",%s}", way);
    cJSON_AddItemToArray(cJSON_GetObjectItem(ops, "not_ok"), parse(text));
    return report;
}

#define NAN_WAY "\"why\":\"NaN\",\"candidate\":{\"nan\":3,\"inf\":0}"
#define INF_WAY "\"why\":\"Inf\",\"candidate\":{\"nan\":0,\"inf\":3}"
#define SUM_WAY "\"why\":\"error\",\"candidate\":{\"nan\":0,\"inf\":0}"
#define UNSTABLE_WAY "\"why\":\"unstable: 3\",\"candidate\":{\"nan\":0,\"inf\":0}"

/* Another fault in the same groups is told by its error, its share of the ops, or its way. */
static void test_another_fault_in_the_same_groups_counts(void **state)
{
    cJSON *report = report_of_two("\"Infinity\"", 4, 4, INF_WAY), *file = accepted_of(report, TODAY);

    (void)state;
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, report_of_two("\"Infinity\"", 4, 4, INF_WAY)), 0);
    assert_int_equal(exit_with(file, TODAY, report_of_two("\"Infinity\"", 3, 3, INF_WAY)), 0);
    assert_int_equal(exit_with(file, TODAY, report_of_two("1e5", 4, 4, SUM_WAY)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of_two("\"NaN\"", 4, 4, NAN_WAY)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of_two("\"Infinity\"", 1, 4, INF_WAY)), 1);
    assert_int_equal(exit_with(file, TODAY, report_of_two("\"Infinity\"", 4, 0, INF_WAY)), 1);
    cJSON_Delete(file);
    report = report_of_two("1", 1, 1, UNSTABLE_WAY);
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, report_of_two("1", 1, 1, UNSTABLE_WAY)), 0);
    /* of a group of which a quarter was bad none may be next time: by chance */
    assert_int_equal(exit_with(file, TODAY, report_of_two("1", 1, 0, UNSTABLE_WAY)), 0);
    cJSON_Delete(file);
    report = report_of_two("1", 4, 4, SUM_WAY);
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, report_of_two("1", 4, 4, UNSTABLE_WAY)), 1);
    cJSON_Delete(file);
}

/* Four ops of a group: the largest error is a rare one. --max-ops may leave it out, or all that became Inf. */
static cJSON *sampled(const char *largest, double typical, const char *inf)
{
    cJSON *report = report_of(largest, "a", NOTE), *ops = cJSON_GetObjectItem(report, "ops");
    char text[400];
    int i;

    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(cJSON_GetObjectItem(ops, "groups"), 0), "bad", cJSON_CreateNumber(4));
    for (i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "{\"kind\":\"gemm\",\"shape\":\"a\",\"m_class\":\"M=1\",\"status\":\"ok\","
                 "\"result\":\"bad\",\"why\":\"error\",\"candidate\":{\"score\":%g,\"inf\":%s}}", typical, i ? "0" : inf);
        cJSON_AddItemToArray(cJSON_GetObjectItem(ops, "not_ok"), parse(text));
    }
    return report;
}

static void test_a_sample_lacks_what_is_rare(void **state)
{
    cJSON *report = sampled("\"Infinity\"", 20, "1"), *file = accepted_of(report, TODAY);

    (void)state;
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, sampled("\"Infinity\"", 20, "1")), 0);
    assert_int_equal(exit_with(file, TODAY, sampled("25", 18, "0")), 0);
    assert_int_equal(exit_with(file, TODAY, sampled("25", 5, "0")), 1);
    cJSON_Delete(file);
    report = sampled("56", 17, "0");
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, sampled("25", 18, "0")), 0);
    assert_int_equal(exit_with(file, TODAY, sampled("150", 18, "0")), 1);
    assert_int_equal(exit_with(file, TODAY, sampled("56", 18, "1")), 1); /* a way of its own */
    cJSON_Delete(file);
}

/* A report with one more sentence of the lane, which could not be judged. */
static cJSON *report_noting(const char *text)
{
    cJSON *report = report_of("20.5", "a", NOTE), *ops = cJSON_GetObjectItem(cJSON_GetObjectItem(report, "lanes"), "ops"),
          *note = cJSON_CreateObject();

    cJSON_AddStringToObject(note, "verdict", "inconclusive");
    cJSON_AddStringToObject(note, "text", text);
    cJSON_AddItemToArray(cJSON_GetObjectItem(ops, "notes"), note);
    return report;
}

/* Of ops that could not be judged none more is excused. */
static void test_what_the_baseline_does_may_have_other_figures(void **state)
{
#define ITSELF(BAD, ERROR) "the baseline build itself is bad on " BAD " of 4 ops, beside what was recorded (first: op 3, error " ERROR ")"
    cJSON *report = report_noting(ITSELF("2", "101")), *file = accepted_of(report, TODAY);

    (void)state;
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, report_noting(ITSELF("2", "101"))), 0);
    assert_int_equal(exit_with(file, TODAY, report_noting(ITSELF("3", "88.2"))), 0);
    assert_int_equal(exit_with(file, TODAY, report_noting("1 of 4 ops could not be judged")), 1);
    cJSON_Delete(file);
    report = report_noting("1 of 4 ops could not be judged");
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, report_noting("1 of 4 ops could not be judged")), 0);
    assert_int_equal(exit_with(file, TODAY, report_noting("3 of 4 ops could not be judged")), 1);
    cJSON_Delete(file);
}

#define SHAKY "\"repeats\":3,\"unstable\":4,\"spread\":1000"
#define LAST_BITS "\"repeats\":3,\"unstable\":4,\"spread\":2"
#define STEADY "\"repeats\":3,\"unstable\":0"
#define ONCE "\"repeats\":1,\"unstable\":0"

/* Add a group of ops: so many judged, and bad. */
static void add_group(cJSON *report, const char *shape, int judged, int bad, double error)
{
    char text[300];

    snprintf(text, sizeof text, "{\"kind\":\"gemm\",\"shape\":\"%s\",\"m_class\":\"M=1\",\"dtype\":\"F16\",\"judged\":%d,"
             "\"bad\":%d,\"new_score\":%g,\"new_rms\":1}", shape, judged, bad, error);
    cJSON_AddItemToArray(cJSON_GetObjectItem(cJSON_GetObjectItem(report, "ops"), "groups"), parse(text));
}

/* Bad ops [from, to) of it: op i is off by (i + 1) times the error in its worst element, and by `whole` in all of
 * them together. */
static void add_ops(cJSON *report, const char *shape, int from, int to, double error, double whole, const char *runs)
{
    char text[600];
    int i;

    for (i = from; i < to; i++) {
        snprintf(text, sizeof text, "{\"fixture\":\"abc\",\"op\":%d,\"kind\":\"gemm\",\"shape\":\"%s\",\"m_class\":\"M=1\","
                 "\"status\":\"ok\",\"result\":\"bad\",\"why\":\"%s\",\"turn\":%d,\"candidate\":{\"row_at\":0,\"col_at\":%g,"
                 "\"score\":%g,\"rel_l2\":%g,%s}}", i, shape, i % 4 == 3 && strcmp(runs, SHAKY) == 0 ? "unstable: 4" : "error", i, error, error * (i + 1), whole, runs);
        cJSON_AddItemToArray(cJSON_GetObjectItem(cJSON_GetObjectItem(report, "ops"), "not_ok"), parse(text));
    }
}

/* The exit code of a group "b" with these ops, beside a group "a" of the same kernel. */
static int exit_shaky(const cJSON *file, int judged, int bad, double error, double whole, const char *runs)
{
    cJSON *report = report_of("20.5", "a", NOTE);

    add_group(report, "b", judged, bad, error * bad);
    add_ops(report, "b", 0, bad, error, whole, runs);
    return exit_with(file, TODAY, report);
}

static cJSON *accept_shaky(int judged, int bad)
{
    cJSON *report = report_of("20.5", "a", NOTE), *file;

    add_group(report, "b", judged, bad, 10 * bad);
    add_ops(report, "b", 0, bad, 10, 0.0006, SHAKY);
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    return file;
}

/* The worst element of what does not repeat is another one in each run, and its error any: that of all elements
 * together tells. */
static void test_whole_outputs_tell_what_does_not_repeat(void **state)
{
    cJSON *file = accept_shaky(20, 20);

    (void)state;
    assert_int_equal(exit_shaky(file, 20, 20, 10, 0.0006, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 20, 20, 100, 0.0006, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 3, 3, 100, 0.00065, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 3, 3, 2, 0.00055, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 20, 20, 10, 0.0009, SHAKY), 1);
    assert_int_equal(exit_shaky(file, 3, 3, 10, 0.0009, SHAKY), 1);
    assert_int_equal(exit_shaky(file, 3, 3, 10, 0.0004, SHAKY), 1);
    assert_int_equal(exit_shaky(file, 20, 20, 10, 0.0006, STEADY), 1);
    assert_int_equal(exit_shaky(file, 20, 20, 100, 0.0006, ONCE), 0); /* nobody knows whether it repeats */
    cJSON_Delete(file);
}

/* Last bits that differ, in all ops or in one of three, let the worst elements be, and their errors count. */
static void test_last_bits_excuse_no_further_fault(void **state)
{
    const char *const of_some[] = {LAST_BITS, STEADY};
    cJSON *report, *file;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        report = report_of("20.5", "a", NOTE);
        add_group(report, "b", 21, 21, 420);
        add_ops(report, "b", 0, 7, 20, 0.0006, LAST_BITS);
        add_ops(report, "b", 7, 21, 20, 0.0006, of_some[i]);
        file = accepted_of(report, TODAY);
        cJSON_Delete(report);
        assert_int_equal(exit_shaky(file, 21, 21, 20, 0.0006, LAST_BITS), 0);
        assert_int_equal(exit_shaky(file, 3, 3, 20, 0.0006, LAST_BITS), 0);
        assert_int_equal(exit_shaky(file, 21, 21, 1250, 0.0006, LAST_BITS), 1);
        assert_int_equal(exit_shaky(file, 21, 21, 1250, 0.0006, SHAKY), 1);
        assert_int_equal(exit_shaky(file, 3, 3, 1250, 0.0006, LAST_BITS), 1);
        cJSON_Delete(file);
    }
}

/* It is bad in some ops by chance, and in others the next time. */
static void test_chance_decides_which_ops_are_bad(void **state)
{
    cJSON *file = accept_shaky(40, 8);

    (void)state;
    assert_int_equal(exit_shaky(file, 40, 8, 10, 0.0006, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 40, 2, 10, 0.0006, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 3, 2, 10, 0.0006, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 3, 0, 10, 0.0006, SHAKY), 0);
    assert_int_equal(exit_shaky(file, 40, 40, 10, 0.0006, SHAKY), 1);
    assert_int_equal(exit_shaky(file, 10, 10, 10, 0.0006, SHAKY), 1);
    cJSON_Delete(file);
    file = accept_shaky(40, 22);
    assert_int_equal(exit_shaky(file, 3, 0, 10, 0.0006, SHAKY), 0); /* more than half, and of three none */
    assert_int_equal(exit_shaky(file, 40, 0, 10, 0.0006, SHAKY), 1);
    cJSON_Delete(file);
}

/* A report of a group "b" of which so many ops are bad by themselves, and `by_bias` more because it is biased. */
static cJSON *biased(int judged, int own, int by_bias)
{
    cJSON *report = report_of("20.5", "a", NOTE), *op;
    int i;

    add_group(report, "b", judged, own + by_bias, 40);
    add_ops(report, "b", 0, own + by_bias, 4, 0.0006, STEADY);
    for (i = own; i < own + by_bias; i++) {
        op = cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(report, "ops"), "not_ok"), i);
        cJSON_ReplaceItemInObject(op, "why", cJSON_CreateString("columns = 0 mod 4: +0.1 % (over 40 ops of this kernel)"));
    }
    return report;
}

/* Few ops of a group may not show its bias, and where their limit lies depends on which they are. */
static void test_ops_that_are_bad_by_bias(void **state)
{
    cJSON *report = biased(40, 2, 38), *file = accepted_of(report, TODAY);

    (void)state;
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, biased(40, 2, 38)), 0);
    assert_int_equal(exit_with(file, TODAY, biased(40, 10, 30)), 0); /* beside another run of the baseline */
    assert_int_equal(exit_with(file, TODAY, biased(6, 1, 0)), 0);
    assert_int_equal(exit_with(file, TODAY, biased(6, 0, 0)), 0);
    assert_int_equal(exit_with(file, TODAY, biased(6, 6, 0)), 0);
    cJSON_Delete(file);
    report = biased(40, 4, 0);
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, biased(40, 4, 0)), 0);
    assert_int_equal(exit_with(file, TODAY, biased(40, 12, 0)), 1); /* more by themselves */
    cJSON_Delete(file);
    report = biased(40, 30, 0);
    file = accepted_of(report, TODAY);
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, biased(40, 0, 0)), 1);
    assert_int_equal(exit_with(file, TODAY, biased(40, 10, 0)), 1); /* fewer of all */
    cJSON_Delete(file);
}

/* Of a group of few ops all results may repeat by chance. */
static void test_what_does_not_repeat_is_known_of_the_kernel(void **state)
{
    cJSON *report = report_of("20.5", "a", NOTE), *file;
    int run;

    (void)state;
    for (run = 0; run < 2; run++) {
        add_group(report, "b", 20, 20, 200);
        add_ops(report, "b", 0, 20, 10, 0.0006, SHAKY);
        add_group(report, "c", 4, 4, 40);
        add_ops(report, "c", 0, 3, 10, 0.0006, STEADY);
        add_ops(report, "c", 3, 4, 10, 0.0006, run ? SHAKY : STEADY);
        if (run)
            break;
        file = accepted_of(report, TODAY);
        cJSON_Delete(report);
        report = report_of("20.5", "a", NOTE);
    }
    assert_int_equal(exit_with(file, TODAY, report), 0);
    cJSON_Delete(file);
}

/* Less slow is no other fault; a score that shifts less is. */
static void test_less_than_half_is_another_fault_but_in_speed(void **state)
{
    (void)state;
    assert_true(td_finding_within("speed", "p", 3, 20));
    assert_false(td_finding_within("scores", "p", 0.1, 5));
    assert_true(td_finding_within("scores", "p", 4, 5));
    assert_false(td_finding_within("ops", "g, typical error", 3, 20));
    assert_true(td_finding_within("ops", "g, typical error", INFINITY, INFINITY));
    assert_false(td_finding_within("ops", "g, typical error", 1e30, INFINITY));
    assert_false(td_finding_within("ops", "g, share of bad ops", 0.1, 0.9));
    assert_false(td_finding_within("ops", "g, typical error of whole outputs", 3, 20));
    assert_true(td_finding_within("ops", "g, error of whole outputs", 3, 20));
    assert_false(td_finding_within("ops", "g, error of whole outputs", 50, 20));
    assert_true(td_finding_within("ops", "g", 3, 20)); /* the largest of fewer ops is smaller */
    assert_false(td_finding_within("ops", "g", 50, 20));
    assert_true(td_finding_within("ops", "g, Inf", 0.01, 0.2));
    assert_true(td_finding_within("tokens", "p", 0, 0));
}

/* A report whose text alone shows damage: logprobs this far apart, this many prompts at clear calls. */
static cJSON *damaged(double apart, int clear)
{
    char text[2000];

    snprintf(text, sizeof text,
             "{\"schema\":\"tapedeck-report-3\",\"tool\":\"t\",\"verdict\":\"regressed\",\"exit\":1,"
             "\"headline\":\"WRONG\",\"cause\":null,\"line\":\"verdict: regressed tokens=1/4\","
             "\"fixtures\":[{\"role\":\"baseline\",\"dir\":\"fx\",\"id\":\"abc\"}],"
             "\"lanes\":{\"tokens\":{\"asked\":true,\"verdict\":\"regressed\",\"headline\":\"bad\","
             "\"notes\":[{\"verdict\":\"regressed\",\"text\":\"damage\"}]}},"
             "\"absent\":[],\"accepted\":[],\"tokens\":{\"forks\":[{\"prompt_id\":\"p\"}],\"damage\":{"
             "\"found\":true,\"candidate\":{\"clear\":%d,\"shift\":%g,\"unsure\":null}}}}",
             clear, apart);
    return parse(text);
}

static void test_damage_is_accepted_as_far_as_it_went(void **state)
{
    cJSON *report = damaged(0.22, 4), *file = accepted_of(report, TODAY + 10);

    (void)state;
    cJSON_Delete(report);
    assert_int_equal(exit_with(file, TODAY, damaged(0.22, 4)), 0);
    assert_int_equal(exit_with(file, TODAY, damaged(0.25, 5)), 0);
    assert_int_equal(exit_with(file, TODAY, damaged(5.8, 4)), 1);
    assert_int_equal(exit_with(file, TODAY, damaged(-5.8, 4)), 1);
    assert_int_equal(exit_with(file, TODAY, damaged(0.22, 8)), 1);
    cJSON_Delete(file);
}

/* A report whose lane scores regressed: of 8 scorings, and of 200 positions, so many gave no number. */
static cJSON *scores_of(int failed, int nan, int not_finite)
{
    char text[2000];

    snprintf(text, sizeof text,
             "{\"schema\":\"tapedeck-report-3\",\"tool\":\"t\",\"verdict\":\"regressed\",\"exit\":1,\"headline\":\"WORSE\","
             "\"cause\":null,\"line\":\"verdict: regressed\",\"fixtures\":[{\"role\":\"baseline\",\"dir\":\"fx\",\"id\":\"abc\"}],"
             "\"lanes\":{\"scores\":{\"asked\":true,\"verdict\":\"regressed\",\"headline\":\"bad\",\"notes\":["
             "{\"verdict\":\"regressed\",\"text\":\"%d scorings failed (first: chat: HTTP 500)\"}]}},\"absent\":[],\"accepted\":[],"
             "\"scores\":{\"recorded\":8,\"failed\":%d,\"nan\":%d,\"not_finite\":%d,"
             "\"answers\":{\"comparisons\":%d},\"prompts\":{\"comparisons\":100}}}",
             failed + nan + not_finite, failed, nan, not_finite, 100 - not_finite);
    return parse(text);
}

static void test_one_failure_does_not_excuse_all(void **state)
{
    static const struct { int one[3], all[3]; } CASES[] = {
        {{1, 0, 0}, {8, 0, 0}}, {{0, 1, 0}, {0, 8, 0}}, {{0, 0, 1}, {0, 0, 90}}, {{1, 0, 0}, {0, 1, 0}}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const int *one = CASES[i].one, *all = CASES[i].all;
        cJSON *report = scores_of(one[0], one[1], one[2]), *file = accepted_of(report, TODAY + 10);

        cJSON_Delete(report);
        assert_int_equal(exit_with(file, TODAY, scores_of(one[0], one[1], one[2])), 0);
        assert_int_equal(exit_with(file, TODAY, scores_of(all[0], all[1], all[2])), 1);
        cJSON_Delete(file);
    }
}

/* A report whose lane regressed, with this in it. */
static cJSON *lane_report(const char *lane, const char *part)
{
    char text[3000];

    snprintf(text, sizeof text,
             "{\"schema\":\"tapedeck-report-3\",\"tool\":\"t\",\"verdict\":\"regressed\",\"exit\":1,\"headline\":\"WORSE\","
             "\"cause\":null,\"line\":\"verdict: regressed\",\"fixtures\":[{\"role\":\"baseline\",\"dir\":\"fx\",\"id\":\"abc\"}],"
             "\"lanes\":{\"%s\":{\"asked\":true,\"verdict\":\"regressed\",\"headline\":\"bad\",\"notes\":[]}},\"absent\":[],\"accepted\":[],"
             "\"%s\":%s}",
             lane, lane, part);
    return parse(text);
}

#define TEN "0123456789"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

/* Failed scorings of other prompts, also with long names, and more collapsed answers to the same one, are other faults. */
static void test_prompts_and_answers_are_counted(void **state)
{
    static const struct { const char *lane, *accepted, *other; } CASES[] = {
        {"scores", "{\"recorded\":4,\"failed\":2,\"unscored\":[{\"prompt_id\":\"a\",\"asked\":1,\"failed\":1},{\"prompt_id\":\"b\",\"asked\":1,\"failed\":1}]}",
         "{\"recorded\":4,\"failed\":2,\"unscored\":[{\"prompt_id\":\"a\",\"asked\":1,\"failed\":1},{\"prompt_id\":\"c\",\"asked\":1,\"failed\":1}]}"},
        {"scores", "{\"recorded\":4,\"nan\":1,\"unscored\":[{\"prompt_id\":\"a\",\"asked\":3,\"nan\":1}]}",
         "{\"recorded\":4,\"nan\":1,\"unscored\":[{\"prompt_id\":\"a\",\"asked\":1,\"nan\":1}]}"},
        {"collapse", "{\"collapsed\":[{\"prompt_id\":\"" LONG "a\",\"kind\":\"nan\"}]}", "{\"collapsed\":[{\"prompt_id\":\"" LONG "b\",\"kind\":\"nan\"}]}"},
        {"collapse", "{\"collapsed\":[{\"prompt_id\":\"a\",\"kind\":\"nan\"}]}",
         "{\"collapsed\":[{\"prompt_id\":\"a\",\"kind\":\"nan\"},{\"prompt_id\":\"a\",\"kind\":\"nan\"},{\"prompt_id\":\"a\",\"kind\":\"nan\"}]}"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        cJSON *report = lane_report(CASES[i].lane, CASES[i].accepted), *file = accepted_of(report, TODAY + 10);

        cJSON_Delete(report);
        assert_int_equal(exit_with(file, TODAY, lane_report(CASES[i].lane, CASES[i].accepted)), 0);
        assert_int_equal(exit_with(file, TODAY, lane_report(CASES[i].lane, CASES[i].other)), 1);
        cJSON_Delete(file);
    }
}

/* An op that crashed is a finding of its own beside an accepted error. */
static void test_a_crash_is_no_error(void **state)
{
    cJSON *file = accept_file(), *report = report_of("20.5", "a", NOTE);

    (void)state;
    cJSON_AddItemToArray(cJSON_GetObjectItem(cJSON_GetObjectItem(report, "ops"), "not_ok"),
                         parse("{\"kind\":\"gemm\",\"layer\":\"l\",\"status\":\"crash\"}"));
    assert_int_equal(exit_with(file, TODAY, report), 1);
    cJSON_Delete(file);
}

static void refused(const char *text, const char *word)
{
    struct td_error err = {0, ""};
    cJSON *report = parse(text), *file = parse("{\"schema\":\"tapedeck-accepted-1\",\"accepted\":[]}");

    assert_int_equal(td_accept_add(file, report, "why", "who", TODAY, TODAY, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, word));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(file, "accepted")), 0);
    cJSON_Delete(report);
    cJSON_Delete(file);
}

static void test_what_was_not_seen_cannot_be_accepted(void **state)
{
    (void)state;
    refused("{\"verdict\":\"broken\",\"cause\":\"no server\",\"fixtures\":[{\"id\":\"a\"}]}", "no server");
    refused("{\"verdict\":\"inconclusive\",\"fixtures\":[{\"id\":\"a\"}],\"lanes\":{\"speed\":{"
            "\"asked\":true,\"verdict\":\"inconclusive\",\"headline\":\"too few pairs\"}}}", "too few pairs");
    refused("{\"verdict\":\"regressed\",\"fixtures\":[{\"id\":\"a\"}],\"lanes\":{\"ops\":{"
            "\"asked\":true,\"verdict\":\"regressed\",\"headline\":\"unnamed\"}}}", "unnamed");
    refused("{\"verdict\":\"inconclusive\",\"fixtures\":[{\"id\":\"a\"}],\"lanes\":{\"tokens\":{"
            "\"asked\":true,\"verdict\":\"inconclusive\",\"headline\":\"forks\"}},"
            "\"absent\":[{\"lane\":\"tokens\",\"verdict\":\"inconclusive\"}],"
            "\"tokens\":{\"forks\":[{\"prompt_id\":\"p\"}]}}", "forks");
}

static void test_dates(void **state)
{
    char text[TD_ACCEPT_DATE];
    int64_t days = 0;

    (void)state;
    assert_int_equal(td_accept_parse_date("2024-10-04", &days, NULL), TD_OK);
    assert_int_equal(days, TODAY);
    td_accept_date_text(TODAY + 149, text);
    assert_string_equal(text, "2025-03-02");
    assert_int_equal(td_accept_parse_date("2025-02-29", &days, NULL), TD_EINVAL);
    assert_int_equal(td_accept_parse_date("2025-2-28", &days, NULL), TD_EINVAL);
    assert_int_equal(td_accept_parse_date("2025-13-01", &days, NULL), TD_EINVAL);
    assert_int_equal(td_accept_parse_date("20250228ab", &days, NULL), TD_EINVAL);
    assert_int_equal(td_accept_parse_date("", &days, NULL), TD_EINVAL);
}

static void expect_skeleton(const char *text, const char *want)
{
    struct td_buf b = TD_BUF_INIT(1000);

    td_note_skeleton(text, &b);
    assert_string_equal(td_buf_str(&b), want);
    td_buf_release(&b);
}

static void test_a_sentence_without_its_numbers(void **state)
{
    (void)state;
    expect_skeleton("3 of 17 ops: +1.5 % [-2.25, 1e-05] p=5.95e-05.", "# of # op: +# % [-#, #] p=#.");
    expect_skeleton("1 of 1 op is bad", "# of # op are bad");
    expect_skeleton("1 of 4 ops is bad", "# of # op are bad");
    expect_skeleton("1 of 4 answers differs", "# of # answer differ");
    expect_skeleton("2 of 4 answers differ", "# of # answer differ");
    expect_skeleton("NaN at 4eggs", "NaN at #egg");
}

static void test_fail_on_leaves_what_else_was_found(void **state)
{
    static const struct { const char *ops, *speed, *tokens; int wrong, slower; } CASES[] = {
        {"pass", "regressed", "pass", 0, 1},
        {"regressed", "pass", "pass", 1, 0},
        {"regressed", "regressed", "pass", 1, 1},
        {"pass", "regressed", "inconclusive", 3, 1},
        {"regressed", "inconclusive", "pass", 1, 3},
    };
    char text[600];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        cJSON *report;

        snprintf(text, sizeof text,
                 "{\"schema\":\"tapedeck-report-3\",\"verdict\":\"regressed\",\"exit\":1,\"lanes\":{"
                 "\"tokens\":{\"asked\":true,\"verdict\":\"%s\"},\"ops\":{\"asked\":true,\"verdict\":\"%s\"},"
                 "\"speed\":{\"asked\":true,\"verdict\":\"%s\"},\"scores\":{\"asked\":false,\"verdict\":\"not judged\"}}}",
                 CASES[i].tokens, CASES[i].ops, CASES[i].speed);
        report = parse(text);
        assert_int_equal(td_gate_exit(report, TD_FAIL_ON_ANY), 1);
        assert_int_equal(td_gate_exit(report, TD_FAIL_ON_WRONG), CASES[i].wrong);
        assert_int_equal(td_gate_exit(report, TD_FAIL_ON_SLOWER), CASES[i].slower);
        cJSON_Delete(report);
    }
}

/* A list with one entry, for a group of this shape. */
static cJSON *entries_for(const char *shape)
{
    cJSON *file = parse("{\"schema\":\"tapedeck-accepted-1\",\"accepted\":[]}"), *list;
    cJSON *report = report_of("20.5", shape, NOTE);
    const int64_t now = td_accept_today();
    struct td_error err = {0, ""};

    assert_int_equal(td_accept_add(file, report, "why", "who", now, now + 10, &err), 1);
    list = cJSON_DetachItemFromObject(file, "accepted");
    cJSON_Delete(report);
    cJSON_Delete(file);
    return list;
}

static int entries_in(const char *path)
{
    struct td_error err = {0, ""};
    cJSON *file;
    int n;

    if (td_accept_load(path, &file, &err))
        fail_msg("%s", err.msg);
    n = cJSON_GetArraySize(td_json_get(file, "accepted"));
    cJSON_Delete(file);
    return n;
}

/* Several gates accept at once, as the jobs of a matrix do. Each adds to the file as it is then. */
static void test_no_acceptance_is_lost(void **state)
{
    enum { GATES = 8, EACH = 5 };
    char folder[] = "/tmp/td-accept-XXXXXX", path[64];
    int i, n, status;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.accepted.json", folder);
    for (i = 0; i < GATES; i++)
        if (fork() == 0) {
            cJSON *list = entries_for((const char[]){(char)('a' + i), '\0'});
            struct td_error err = {0, ""};
            int rc = 0;

            for (n = 0; n < EACH; n++)
                rc |= td_accept_extend(path, list, &err);
            _exit(rc != 0);
        }
    for (i = 0; i < GATES; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(entries_in(path), GATES * EACH);
    unlink(path);
    rmdir(folder);
}

/* A pipe in its place is refused, and not waited for. */
static void test_a_pipe_is_no_file_of_acceptances(void **state)
{
    char folder[] = "/tmp/td-accept-XXXXXX", path[64];
    struct td_error err = {0, ""};
    cJSON *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.accepted.json", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(td_accept_load(path, &file, &err), TD_EINVAL);
    alarm(0);
    assert_null(file);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_acceptance_is_lost),
        cmocka_unit_test(test_a_pipe_is_no_file_of_acceptances),
        cmocka_unit_test(test_the_same_findings_are_excused_until_the_date),
        cmocka_unit_test(test_other_numbers_of_the_same_sentence_are_excused),
        cmocka_unit_test(test_a_report_says_what_an_entry_does),
        cmocka_unit_test(test_nothing_else_is_excused),
        cmocka_unit_test(test_another_fault_in_the_same_groups_counts),
        cmocka_unit_test(test_a_sample_lacks_what_is_rare),
        cmocka_unit_test(test_whole_outputs_tell_what_does_not_repeat),
        cmocka_unit_test(test_what_the_baseline_does_may_have_other_figures),
        cmocka_unit_test(test_last_bits_excuse_no_further_fault),
        cmocka_unit_test(test_chance_decides_which_ops_are_bad),
        cmocka_unit_test(test_ops_that_are_bad_by_bias),
        cmocka_unit_test(test_what_does_not_repeat_is_known_of_the_kernel),
        cmocka_unit_test(test_less_than_half_is_another_fault_but_in_speed),
        cmocka_unit_test(test_damage_is_accepted_as_far_as_it_went),
        cmocka_unit_test(test_one_failure_does_not_excuse_all),
        cmocka_unit_test(test_prompts_and_answers_are_counted),
        cmocka_unit_test(test_a_crash_is_no_error),
        cmocka_unit_test(test_what_was_not_seen_cannot_be_accepted),
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_a_sentence_without_its_numbers),
        cmocka_unit_test(test_fail_on_leaves_what_else_was_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
