/* test_places.c - two faults with errors of one size differ in where they are worst.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "common/buf.h"
#include "gate/places.h"

/* Bad ops [from, to) of a group with this shape, every step-th of them; op i is worst in column i by 20, from
 * `other` on in another column, and from `worse` on by 50. */
static void add_ops(struct td_buf *out, const char *shape, int from, int to, int step, int other, int worse, const char *more)
{
    int i;

    for (i = from; i < to; i += step)
        td_buf_addf(out,
                    "%s{\"fixture\":\"c2c93388ddcc\",\"op\":%d,\"kind\":\"gemm\",\"shape\":\"%s\",\"m_class\":\"M=1\",\"status\":\"ok\","
                    "\"result\":\"bad\",\"candidate\":{\"row_at\":0,\"col_at\":%d,\"score\":%g,%s}}",
                    out->len && out->data[out->len - 1] == '}' ? "," : "", i, shape, i >= other ? i + 1000 : i, i >= worse ? 50. : 20., more);
}

static cJSON *report_with(const struct td_buf *ops, int n)
{
    struct td_buf text = TD_BUF_INIT(1 << 20);
    cJSON *report;

    td_buf_addf(&text, "{\"ops\":{\"groups\":[{\"kind\":\"gemm\",\"shape\":\"a\",\"m_class\":\"M=1\",\"dtype\":\"F16\",\"judged\":%d,\"bad\":%d},"
                       "{\"kind\":\"gemm\",\"shape\":\"b\",\"m_class\":\"M=1\",\"dtype\":\"F16\",\"judged\":%d,\"bad\":%d}],\"not_ok\":[%s]}}",
                n, n, n, n, td_buf_str(ops));
    report = td_json_parse(td_buf_str(&text), text.len, NULL);
    assert_non_null(report);
    td_buf_release(&text);
    return report;
}

#define OF_SIZE(WHOLE) ",\"rel_l2\":" WHOLE
#define SOUND "\"repeats\":3,\"unstable\":0" OF_SIZE("0.0006")
#define SHAKY "\"repeats\":3,\"unstable\":5,\"spread\":40" OF_SIZE("0.0006")

/* Both groups have ops [0, n), every step-th; those of b are elsewhere from op `other` on. */
static cJSON *report_of(int n, int step, int other, const char *more)
{
    struct td_buf ops = TD_BUF_INIT(1 << 20);
    cJSON *report;

    add_ops(&ops, "a", step - 1, n, step, n, n, more);
    add_ops(&ops, "b", step - 1, n, step, other, n, more);
    report = report_with(&ops, n / step);
    td_buf_release(&ops);
    return report;
}

static bool agree(cJSON *report, const cJSON *places)
{
    const bool yes = td_places_agree(report, places);

    cJSON_Delete(report);
    return yes;
}

static const cJSON *ops_of(const cJSON *places)
{
    return td_json_get(td_json_get(places, "gemm a M=1 F16"), "ops");
}

/* Of 40 ops every third is bad. What is kept are the bad ones that any plan takes first, so that each smaller
 * plan that holds a bad op holds one that is known. */
static void test_what_plans_take_first_is_kept(void **state)
{
    struct td_buf ops = TD_BUF_INIT(1 << 20);
    cJSON *report, *places;
    char key[32], turn[100];
    int i, n = 0;

    (void)state;
    for (i = 0; i < 40; i += 3) {
        snprintf(turn, sizeof turn, SOUND "},\"turn\":%d,\"x\":{\"y\":0", i * 7 % 40);
        add_ops(&ops, "a", i, i + 1, 1, 40, 40, turn);
    }
    report = report_with(&ops, 40);
    places = td_places_of(report);
    assert_int_equal(cJSON_GetArraySize(ops_of(places)), 8);
    for (i = 0; n < 8; i++) { /* in the order of their turns */
        const int op = i * 23 % 40; /* 23 * 7 is 1 modulo 40 */

        snprintf(key, sizeof key, "c2c93388:%d", op);
        if (op % 3 == 0) {
            assert_non_null(td_json_get(ops_of(places), key));
            n++;
        }
    }
    cJSON_Delete(places);
    cJSON_Delete(report);
    td_buf_release(&ops);
}

static void test_half_of_a_group_must_be_where_it_was(void **state)
{
    cJSON *report = report_of(40, 1, 40, SOUND), *places = td_places_of(report);

    (void)state;
    assert_int_equal(cJSON_GetArraySize(ops_of(places)), 8);
    assert_string_equal(td_json_get_str(ops_of(places), "c2c93388:39", ""), "row 0, column 39, error 20, whole 0.0006");
    assert_true(agree(report, places));
    assert_true(agree(report_of(40, 1, 20, SOUND), places)); /* on another machine some lie elsewhere */
    assert_false(agree(report_of(40, 1, 19, SOUND), places));
    assert_false(agree(report_of(40, 1, 0, SOUND), places)); /* group a alone is as it was */
    cJSON_Delete(places);
}

/* The last op of a group is in every sample. */
static void test_samples_share_an_op(void **state)
{
    cJSON *report = report_of(40, 1, 40, SOUND), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 40, 40, SOUND), places));
    assert_true(agree(report_of(40, 20, 40, SOUND), places));
    assert_true(agree(report_of(40, 40, 0, SOUND), places)); /* one op of a, one of b: half */
    cJSON_Delete(places);
    report = report_of(40, 40, 40, SOUND);
    places = td_places_of(report);
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 1, 40, SOUND), places));
    assert_false(agree(report_of(39, 1, 0, SOUND), places)); /* the one of then is bad no more */
    cJSON_Delete(places);
}

/* The same number of other ops; as many NaN in each op, or many more. */
static void test_other_ops_and_other_counts(void **state)
{
    struct td_buf ops = TD_BUF_INIT(1 << 20);
    cJSON *report = report_of(40, 2, 40, SOUND), *places = td_places_of(report);

    (void)state;
    assert_true(agree(report, places));
    add_ops(&ops, "a", 0, 40, 2, 40, 40, SOUND);
    add_ops(&ops, "b", 0, 40, 2, 40, 40, SOUND);
    assert_false(agree(report_with(&ops, 20), places));
    assert_false(agree(report_with(&ops, 10), places)); /* a sample, too: none of then is bad */
    add_ops(&ops, "a", 39, 40, 1, 40, 40, SOUND);
    assert_true(agree(report_with(&ops, 10), places)); /* a sample, which may lack the others of then */
    td_buf_release(&ops);
    cJSON_Delete(places);
    report = report_of(40, 1, 40, SOUND ",\"nan\":1,\"inf\":0");
    places = td_places_of(report);
    assert_string_equal(td_json_get_str(ops_of(places), "c2c93388:39", ""), "row 0, column 39, error 20, whole 0.0006, 1 NaN, 0 Inf");
    assert_true(agree(report, places));
    assert_true(agree(report_of(40, 1, 40, SOUND ",\"nan\":2"), places));
    assert_false(agree(report_of(40, 1, 40, SOUND ",\"nan\":640"), places));
    assert_false(agree(report_of(40, 1, 40, SOUND), places));
    cJSON_Delete(places);
}

static void test_what_crashed_has_no_place(void **state)
{
    cJSON *report = report_of(40, 1, 40, SOUND ",\"crash\":\"SIGSEGV\""), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_null(ops_of(places)->child);
    assert_true(agree(report_of(40, 1, 0, SOUND), places));
    cJSON_Delete(places);
}

/* Its worst element is another one each time, by another error; the error of all elements together is not. */
static void test_what_does_not_repeat_is_told_by_its_whole_outputs(void **state)
{
    struct td_buf ops = TD_BUF_INIT(1 << 20);
    cJSON *report = report_of(40, 1, 40, SHAKY), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_string_equal(td_json_get_str(ops_of(places), "c2c93388:39", ""), "row 0, column 39, error 20, whole 0.0006, unstable by 40");
    assert_true(agree(report_of(40, 1, 0, SHAKY), places)); /* worst elsewhere */
    assert_true(agree(report_of(40, 40, 0, SHAKY), places)); /* of a sample */
    assert_true(agree(report_of(40, 1, 40, "\"repeats\":3,\"unstable\":5" OF_SIZE("0.00074")), places));
    assert_false(agree(report_of(40, 1, 40, "\"repeats\":3,\"unstable\":5" OF_SIZE("0.00076")), places));
    assert_false(agree(report_of(40, 1, 40, "\"repeats\":3,\"unstable\":5" OF_SIZE("0.00047")), places));
    assert_false(agree(report_of(40, 40, 40, "\"repeats\":3,\"unstable\":5" OF_SIZE("0.00076")), places));
    assert_false(agree(report_of(40, 1, 40, SOUND), places)); /* it repeats now: another fault */
    assert_true(agree(report_of(40, 1, 40, "\"repeats\":1,\"unstable\":0" OF_SIZE("0.0006")), places)); /* nobody knows */
    add_ops(&ops, "a", 0, 10, 1, 40, 40, SHAKY);
    assert_true(agree(report_with(&ops, 40), places)); /* the others are right by chance */
    td_buf_release(&ops);
    cJSON_Delete(places);
    report = report_of(40, 1, 40, SOUND);
    places = td_places_of(report);
    cJSON_Delete(report);
    assert_false(agree(report_of(40, 1, 40, SHAKY), places)); /* what repeated does not any more */
    assert_false(agree(report_of(40, 40, 40, SHAKY), places));
    cJSON_Delete(places);
}

/* Where last bits alone differ the worst element is the same, whether they differ this time or not. */
static void test_last_bits(void **state)
{
#define BY(SPREAD) "\"repeats\":3,\"unstable\":1,\"spread\":" SPREAD OF_SIZE("0.0006")
    cJSON *report = report_of(40, 1, 40, BY("1.9")), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 1, 40, BY("1.9")), places));
    assert_true(agree(report_of(40, 1, 40, BY("5.1")), places));
    assert_true(agree(report_of(40, 1, 40, SOUND), places));
    assert_false(agree(report_of(40, 1, 0, BY("1.9")), places)); /* worst elsewhere */
    cJSON_Delete(places);
    report = report_of(40, 1, 40, SOUND);
    places = td_places_of(report);
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 1, 40, BY("1.9")), places));
    cJSON_Delete(places);
}

/* In every second call a block is lost. The run that is judged may be a right one; how far runs lie apart tells. */
static void test_runs_that_lie_apart(void **state)
{
#define RUNS(SPREAD) "\"repeats\":3,\"unstable\":5,\"spread\":" SPREAD
#define JUDGED_RIGHT "},\"why\":\"unstable: 5 elements differ\",\"x\":{\"y\":0"
    cJSON *report = report_of(40, 1, 40, RUNS("250") OF_SIZE("0.3")), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 1, 40, RUNS("250") OF_SIZE("0.0002") JUDGED_RIGHT), places));
    assert_false(agree(report_of(40, 1, 40, RUNS("400") OF_SIZE("0.0002") JUDGED_RIGHT), places));
    assert_false(agree(report_of(40, 1, 40, RUNS("250") OF_SIZE("0.0002")), places));
    cJSON_Delete(places);
    report = report_of(40, 1, 40, RUNS("250") OF_SIZE("0.0002") JUDGED_RIGHT);
    places = td_places_of(report);
    cJSON_Delete(report);
    assert_string_equal(td_json_get_str(ops_of(places), "c2c93388:39", ""),
                        "row 0, column 39, error 20, whole 0.0002, unstable by 250, judged right");
    assert_true(agree(report_of(40, 1, 40, RUNS("250") OF_SIZE("0.3")), places));
    assert_false(agree(report_of(40, 1, 40, RUNS("100") OF_SIZE("0.3")), places));
    cJSON_Delete(places);
}

/* Worst in the same elements by the same errors, and other elements are wrong as well. */
static void test_whole_outputs_of_what_repeats(void **state)
{
    cJSON *report = report_of(40, 1, 40, SOUND), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 1, 40, "\"repeats\":3,\"unstable\":0" OF_SIZE("0.00074")), places));
    assert_false(agree(report_of(40, 1, 40, "\"repeats\":3,\"unstable\":0" OF_SIZE("0.00076")), places));
    cJSON_Delete(places);
}

/* With --op-repeat 1 the worst element stands where it does: a fault elsewhere is another one. */
static void test_ops_that_ran_once(void **state)
{
    static const char ONCE[] = "\"repeats\":1,\"unstable\":0" OF_SIZE("0.0006");
    cJSON *report = report_of(40, 1, 40, SOUND), *places = td_places_of(report);

    (void)state;
    cJSON_Delete(report);
    assert_true(agree(report_of(40, 1, 40, ONCE), places));
    assert_false(agree(report_of(40, 1, 0, ONCE), places));
    cJSON_Delete(places);
    report = report_of(40, 1, 40, ONCE);
    places = td_places_of(report);
    cJSON_Delete(report);
    assert_false(agree(report_of(40, 1, 0, SOUND), places));
    cJSON_Delete(places);
}

/* By half to twice as much. */
static void test_errors_of_the_same_ops(void **state)
{
    cJSON *report = report_of(40, 1, 40, SOUND), *places = td_places_of(report);
    struct td_buf ops = TD_BUF_INIT(1 << 20);

    (void)state;
    cJSON_Delete(report);
    add_ops(&ops, "a", 0, 40, 1, 40, 0, SOUND);
    add_ops(&ops, "b", 0, 40, 1, 40, 40, SOUND);
    assert_false(agree(report_with(&ops, 40), places));
    td_buf_clear(&ops);
    add_ops(&ops, "a", 0, 40, 1, 40, 20, SOUND);
    add_ops(&ops, "b", 0, 40, 1, 40, 40, SOUND);
    assert_true(agree(report_with(&ops, 40), places));
    td_buf_release(&ops);
    cJSON_Delete(places);
}

/* Of a sample the ops that are known one by one tell more than its median. */
static void test_a_sample_is_told_by_its_ops(void **state)
{
    cJSON *report = report_of(40, 1, 40, SOUND), *places = td_places_of(report), *sample;

    (void)state;
    assert_false(td_places_tell_more(report, places, "gemm a M=1 F16")); /* all were judged */
    cJSON_Delete(report);
    sample = report_of(40, 20, 0, SOUND);
    assert_true(td_places_tell_more(sample, places, "gemm a M=1 F16"));
    assert_false(td_places_tell_more(sample, places, "gemm b M=1 F16")); /* worst elsewhere */
    assert_false(td_places_tell_more(sample, places, "gemm c M=1 F16"));
    assert_false(td_places_tell_more(sample, NULL, "gemm a M=1 F16"));
    cJSON_Delete(sample);
    sample = report_of(38, 38, 40, SOUND); /* none in common */
    assert_false(td_places_tell_more(sample, places, "gemm a M=1 F16"));
    cJSON_Delete(sample);
    cJSON_Delete(places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_plans_take_first_is_kept),
        cmocka_unit_test(test_half_of_a_group_must_be_where_it_was),
        cmocka_unit_test(test_samples_share_an_op),
        cmocka_unit_test(test_errors_of_the_same_ops), cmocka_unit_test(test_ops_that_ran_once),
        cmocka_unit_test(test_a_sample_is_told_by_its_ops),
        cmocka_unit_test(test_other_ops_and_other_counts),
        cmocka_unit_test(test_what_crashed_has_no_place),
        cmocka_unit_test(test_what_does_not_repeat_is_told_by_its_whole_outputs),
        cmocka_unit_test(test_last_bits),
        cmocka_unit_test(test_runs_that_lie_apart),
        cmocka_unit_test(test_whole_outputs_of_what_repeats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
