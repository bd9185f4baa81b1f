/* test_biases.c - an accepted bias is found again in a sample of its ops, and excuses no other one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "gate/biases.h"

#define BIAS(KIND, OF, ESTIMATE, SIZE, SLICE)                                                          \
    "{\"kind\":\"" KIND "\",\"shape\":\"a\",\"dtype\":\"F16\",\"of\":\"" OF "\",\"estimate\":" ESTIMATE \
    ",\"new_size\":" SIZE ",\"slice\":\"" SLICE "\",\"text\":\"" SLICE ": " ESTIMATE "\"}"

/* A fourth of the ops are of the group that the biases are of. */
static cJSON *report_of(const char *found, int judged)
{
    char text[4000];
    cJSON *report;

    snprintf(text, sizeof text, "{\"ops\":{\"judged\":%d,\"groups\":[{\"kind\":\"gemm\",\"shape\":\"a\",\"m_class\":\"M=1\","
             "\"dtype\":\"F16\",\"judged\":%d}],\"bias\":{\"found\":[%s]}}}", judged, judged / 4, found);
    report = td_json_parse(text, strlen(text), NULL);
    assert_non_null(report);
    return report;
}

/* judged: of 100 that the accepted run judged. */
static bool excuses_of(const char *accepted, const char *now, int judged)
{
    cJSON *before = report_of(accepted, 100), *report = report_of(now, judged), *list = td_biases_of(before);
    const bool yes = td_biases_agree(report, list);

    cJSON_Delete(before);
    cJSON_Delete(report);
    cJSON_Delete(list);
    return yes;
}

static bool excuses(const char *accepted, const char *now)
{
    return excuses_of(accepted, now, 100);
}

#define SLOPE(ESTIMATE, SIZE, SLICE) BIAS("gemm", "slope", ESTIMATE, SIZE, SLICE)
#define COARSE(SIZE) BIAS("gemm", "coarseness", "2.4", SIZE, "all elements")

static void test_groups_that_say_the_same_are_one(void **state)
{
    cJSON *report = report_of(SLOPE("-0.01", "5", "all elements") "," SLOPE("-0.01", "7", "all elements") ","
                              SLOPE("0.01", "6", "all elements") "," COARSE("\"Infinity\""), 100),
          *list = td_biases_of(report);

    (void)state;
    assert_int_equal(cJSON_GetArraySize(list), 3);
    assert_int_equal(td_json_get_num(cJSON_GetArrayItem(list, 0), "least", 0), 5);
    assert_int_equal(td_json_get_num(cJSON_GetArrayItem(list, 0), "most", 0), 7);
    assert_int_equal(td_json_get_num(cJSON_GetArrayItem(list, 0), "sign", 0), -1);
    assert_int_equal(td_json_get_num(cJSON_GetArrayItem(list, 1), "sign", 0), 1);
    assert_true(td_biases_agree(report, list));
    cJSON_Delete(report);
    cJSON_Delete(list);
}

static void test_a_bias_has_its_sign_and_size(void **state)
{
    static const char WAS[] = SLOPE("-0.01", "5", "all elements") "," SLOPE("-0.01", "7", "all elements");

    (void)state;
    assert_true(excuses(WAS, SLOPE("-0.01", "2.5", "all elements")));
    assert_true(excuses(WAS, SLOPE("-0.01", "14", "all elements")));
    assert_false(excuses(WAS, SLOPE("-0.01", "2.4", "all elements")));
    assert_false(excuses(WAS, SLOPE("-0.01", "14.1", "all elements")));
    assert_false(excuses(WAS, SLOPE("0.01", "5", "all elements")));
    assert_false(excuses(WAS, BIAS("gemm", "mean", "-0.01", "5", "all elements")));
    assert_false(excuses(WAS, BIAS("other", "slope", "-0.01", "5", "all elements")));
    assert_false(excuses(WAS, SLOPE("-0.01", "5", "all elements") "," SLOPE("-0.01", "20", "all elements")));
    assert_true(excuses(WAS, ""));
    assert_false(excuses("", WAS));
    assert_true(td_biases_agree(NULL, NULL));
}

static void test_a_slice_holds_its_parts(void **state)
{
    (void)state;
    assert_true(excuses(SLOPE("1", "5", "all elements"), SLOPE("1", "5", "the last tile of 128 columns")));
    assert_true(excuses(SLOPE("1", "5", "columns = 1 mod 4"), SLOPE("1", "5", "columns = 5 mod 8")));
    assert_true(excuses(SLOPE("1", "5", "rows = 1 mod 4"), SLOPE("1", "5", "rows = 1 mod 4")));
    assert_false(excuses(SLOPE("1", "5", "columns = 1 mod 4"), SLOPE("1", "5", "columns = 2 mod 4")));
    assert_false(excuses(SLOPE("1", "5", "columns = 1 mod 4"), SLOPE("1", "5", "columns = 1 mod 2")));
    assert_false(excuses(SLOPE("1", "5", "columns = 1 mod 4"), SLOPE("1", "5", "rows = 1 mod 4")));
    assert_false(excuses(SLOPE("1", "5", "columns = 1 mod 4"), SLOPE("1", "5", "all elements")));
    assert_false(excuses(SLOPE("1", "5", "columns = 1 mod 0"), SLOPE("1", "5", "columns = 1 mod 4")));
    assert_false(excuses(SLOPE("1", "5", "the last tile of 64 columns"), SLOPE("1", "5", "the last tile of 128 columns")));
    assert_true(excuses(SLOPE("1", "5", "the last tile of 8 columns"), SLOPE("1", "5", "the last column")));
    assert_true(excuses(SLOPE("1", "5", "the last tile of 8 rows"), SLOPE("1", "5", "the last tile of 2 rows")));
    assert_false(excuses(SLOPE("1", "5", "the last column"), SLOPE("1", "5", "the last tile of 8 columns")));
    assert_false(excuses(SLOPE("1", "5", "the last tile of 8 columns"), SLOPE("1", "5", "the last row")));
    assert_false(excuses(SLOPE("1", "5", "the last tile of 8 columns"), SLOPE("1", "5", "columns = 7 mod 8")));
}

/* Few ops show a bias as coarser errors alone. */
static void test_coarseness_is_excused_by_a_bias_of_its_size(void **state)
{
    (void)state;
    assert_true(excuses(SLOPE("0.01", "18.9", "all elements"), COARSE("19")));
    assert_true(excuses(COARSE("2.4"), COARSE("1.8")));
    assert_false(excuses(SLOPE("0.01", "18.9", "all elements"), COARSE("80")));
    assert_true(excuses(COARSE("2.4"), COARSE("0.6")));
    assert_false(excuses(COARSE("2.4"), COARSE("0.59")));
    assert_true(excuses(COARSE("2.4"), COARSE("9.6")));
    assert_false(excuses(COARSE("2.4"), SLOPE("0.01", "2.4", "all elements")));
}

/* With its interval, of ops with so many different inputs. */
#define SURE(OF, ESTIMATE, LOW, HIGH, SLICE, OPS, BLOCKS)                                                               \
    "{\"kind\":\"gemm\",\"shape\":\"a\",\"m_class\":\"M=1\",\"dtype\":\"F16\",\"of\":\"" OF "\",\"estimate\":" ESTIMATE \
    ",\"low\":" LOW ",\"high\":" HIGH ",\"old_size\":0.1,\"new_size\":5,\"slice\":\"" SLICE "\",\"ops\":" OPS             \
    ",\"blocks\":" BLOCKS "}"
#define CLEAR(SLICE) SURE("slope", "-0.01", "-0.011", "-0.009", SLICE, "88", "44")

static void test_an_accepted_bias_must_be_there_again(void **state)
{
    static const char WAS[] = CLEAR("all elements") "," COARSE("12");

    (void)state;
    assert_true(excuses_of(WAS, CLEAR("all elements") "," COARSE("12"), 100));
    assert_true(excuses_of(WAS, CLEAR("all elements"), 100)); /* coarseness may be hidden by it */
    assert_true(excuses_of(WAS, CLEAR("all elements") "," CLEAR("columns = 1 mod 4"), 100));
    assert_false(excuses_of(WAS, CLEAR("columns = 1 mod 4") "," COARSE("12"), 100)); /* of fewer columns */
    assert_false(excuses_of(WAS, COARSE("12"), 100));
    assert_false(excuses_of(WAS, "", 100));
    assert_true(excuses_of(CLEAR("columns = 1 mod 8") "," CLEAR("columns = 1 mod 4"), CLEAR("columns = 1 mod 4"), 100));
}

/* A group of 88 ops with 44 different inputs shows it within a tenth: 24 ops with 12 inputs still do. One that
 * it showed within a third takes most of its ops. */
static void test_a_sample_that_is_large_enough_must_show_it(void **state)
{
    static const char WIDE[] = SURE("slope", "-0.01", "-0.0133", "-0.0067", "all elements", "44", "44");
    cJSON *before = report_of(WIDE, 100), *list = td_biases_of(before);

    (void)state;
    assert_false(excuses_of(CLEAR("all elements") "," COARSE("12"), COARSE("12"), 99));
    assert_true(excuses_of(CLEAR("all elements") "," COARSE("12"), COARSE("12"), 95));
    assert_true(excuses_of(CLEAR("all elements") "," COARSE("12"), CLEAR("columns = 1 mod 4") "," COARSE("12"), 95));
    assert_int_equal(td_json_get_num(cJSON_GetArrayItem(list, 0), "enough", 0), 77);
    assert_string_equal(td_json_get_str(cJSON_GetArrayItem(list, 0), "group", ""), "gemm a M=1 F16");
    cJSON_Delete(before);
    cJSON_Delete(list);
}

/* One that hardly showed may not the next time, nor one that fewer groups showed than another. */
static void test_chance_need_not_be_there_again(void **state)
{
    static const char FAINT[] = SURE("slope", "-0.01", "-0.016", "-0.004", "all elements", "88", "44") "," COARSE("12"),
                      SMALL[] = "{\"kind\":\"gemm\",\"shape\":\"a\",\"m_class\":\"M=1\",\"dtype\":\"F16\",\"of\":\"slope\",\"estimate\":-1,"
                                "\"low\":-1.1,\"high\":-0.9,\"old_size\":0,\"new_size\":0.4,\"slice\":\"all elements\",\"ops\":88,\"blocks\":44},"
                                COARSE("0.4"),
                      MAIN[] = CLEAR("all elements") "," CLEAR("all elements") ","
                               SURE("mean", "1", "0.9", "1.1", "rows = 0 mod 2", "88", "44");

    (void)state;
    assert_true(excuses_of(FAINT, COARSE("12"), 100));
    assert_true(excuses_of(SMALL, COARSE("0.4"), 100));
    assert_true(excuses_of(MAIN, CLEAR("all elements"), 100));
    assert_true(excuses_of(COARSE("5"), SURE("slope", "-0.01", "-0.016", "-0.004", "rows = 2 mod 8", "14", "14"), 50)); /* faint */
    assert_false(excuses_of(COARSE("1"), SURE("slope", "-0.01", "-0.016", "-0.004", "rows = 2 mod 8", "14", "14"), 50));
    assert_false(excuses_of(COARSE("5"), SURE("slope", "-0.01", "-0.016", "-0.004", "rows = 2 mod 8", "14", "14"), 100));
    assert_false(excuses_of(COARSE("5"), CLEAR("rows = 2 mod 8"), 50));
    assert_false(excuses_of(MAIN, SURE("mean", "1", "0.9", "1.1", "rows = 0 mod 2", "88", "44"), 100));
}

static void test_sentences_of_a_bias_are_known(void **state)
{
    cJSON *report = report_of(SLOPE("0.01", "5", "all elements"), 100);

    (void)state;
    assert_true(td_biases_say(report, "all elements: 0.01 (gemm a, M=1, 14 ops in 8 layers)"));
    assert_true(td_biases_say(report, "3 more groups of ops are biased or coarser"));
    assert_false(td_biases_say(report, "all elements: 0.02 (gemm a, M=1, 14 ops in 8 layers)"));
    assert_false(td_biases_say(report, "1 of 4 ops are bad"));
    cJSON_Delete(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_that_say_the_same_are_one),
        cmocka_unit_test(test_a_bias_has_its_sign_and_size),
        cmocka_unit_test(test_a_slice_holds_its_parts),
        cmocka_unit_test(test_coarseness_is_excused_by_a_bias_of_its_size),
        cmocka_unit_test(test_an_accepted_bias_must_be_there_again),
        cmocka_unit_test(test_a_sample_that_is_large_enough_must_show_it),
        cmocka_unit_test(test_chance_need_not_be_there_again),
        cmocka_unit_test(test_sentences_of_a_bias_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
