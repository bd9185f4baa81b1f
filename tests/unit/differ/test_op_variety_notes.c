/* test_op_variety_notes.c - each fault that the data cannot show is said, and not where it can.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "differ/lanes.h"
#include "differ/op_variety_notes.h"

#define ALL_ROWS "\"m_classes\":[\"M=1\",\"M=2-8\",\"M=9-24\",\"M=25-50\",\"M=51-512\",\"M>512\"]"
#define SHOWS_ALL                                                                                             \
    "\"kind\":\"gptq_gemm\",\"zero_points\":\"vary\",\"scales\":\"vary\",\"order\":\"act-order\",\"n_divisor\":32," \
    "\"k_divisor\":96,\"largest_a\":2047,\"largest_sum\":65504,\"experts\":8,\"routed\":8"

/* The notes of one kind, a line each. */
static const char *notes(const char *members)
{
    static char text[4000];
    struct td_lane lanes[TD_N_LANES], *lane = &lanes[TD_LANE_OPS];
    char json[2000];
    cJSON *v;
    int i;

    snprintf(json, sizeof json, "[{%s}]", members);
    v = td_json_parse(json, strlen(json), NULL);
    assert_non_null(v);
    td_lanes_init(lanes);
    td_op_variety_notes(v, lane);
    text[0] = '\0';
    for (i = 0; i < lane->n_notes; i++) {
        assert_int_equal(lane->notes[i].verdict, TD_NOT_JUDGED);
        strcat(strcat(text, lane->notes[i].text), "\n");
    }
    assert_int_equal(lane->verdict, TD_NOT_JUDGED);
    td_lanes_release(lanes);
    cJSON_Delete(v);
    return text;
}

/* One member in the place of that of SHOWS_ALL: the last of equal names would not count. */
static const char *notes_with(const char *name, const char *value)
{
    char members[2000] = SHOWS_ALL "," ALL_ROWS, rest[1000], *at, *end;

    at = strstr(members, name);
    assert_non_null(at);
    at += strlen(name) + 2;
    end = *at == '[' ? strchr(at, ']') + 1 : at + strcspn(at, ",");
    strcpy(rest, end);
    strcat(strcpy(at, value), rest);
    return notes(members);
}

static void nothing_is_said_of_what_shows(void **state)
{
    (void)state;
    assert_string_equal(notes(SHOWS_ALL "," ALL_ROWS), "");
}

static void weights(void **state)
{
    (void)state;
    assert_string_equal(notes_with("zero_points", "\"equal\""),
                        "not shown in gptq_gemm: faults in zero points, those of a weight are equal (record AWQ, or GPTQ with sym false)\n");
    assert_string_equal(notes_with("zero_points", "\"equal\",\"zero_point\":8"),
                        "not shown in gptq_gemm: faults in zero points, all are 8 (record AWQ, or GPTQ with sym false)\n");
    assert_string_equal(notes_with("scales", "\"equal\""),
                        "not shown in gptq_gemm: a scale taken for another, those of a weight are equal (record a trained checkpoint)\n");
    assert_string_equal(notes_with("order", "\"of groups\""),
                        "not shown in gptq_gemm: faults in g_idx, no weight is in act-order (record GPTQ with desc_act true)\n");
}

static void sizes(void **state)
{
    (void)state;
    assert_string_equal(notes_with("n_divisor", "128"), "not shown in gptq_gemm: faults in a smaller last tile, all N are multiples of 128 "
                                                        "(record another --tensor-parallel-size, or model)\n");
    assert_non_null(strstr(notes_with("n_divisor", "1024"), "all N are multiples of 256 ("));
    assert_non_null(strstr(notes_with("n_divisor", "192"), "all N are multiples of 64 ("));
    assert_non_null(strstr(notes_with("k_divisor", "64"), "all K are multiples of 64 ("));
    assert_non_null(strstr(notes("\"kind\":\"gemm\",\"n_divisor\":128,\"k_divisor\":512"), "all N are multiples of 128, all K of 256 ("));
    assert_string_equal(notes("\"kind\":\"ggml_mul_mat\",\"k_divisor\":64"),
                        "not shown in ggml_mul_mat: faults in a smaller last tile, all K are multiples of 64 (record another model)\n");
    assert_string_equal(notes("\"kind\":\"gemm\",\"n_divisor\":32,\"k_divisor\":0"), "");
}

static void rows(void **state)
{
    (void)state;
    assert_string_equal(notes_with("m_classes", "[\"M=1\",\"M=51-512\"]"),
                        "not shown in gptq_gemm: paths for M=2-8, M=9-24, M=25-50, M>512 (record more requests at once, and longer prompts)\n");
}

static void overflow(void **state)
{
    (void)state;
    assert_string_equal(notes_with("largest_a", "2046.5"), "not shown in gptq_gemm: overflow of float16, no activation is over 2.05e+03 "
                                                           "(record all layers, and real prompts)\n");
    assert_string_equal(notes_with("largest_sum", "312.25"), "not shown in gptq_gemm: overflow of float16, no |A||W| is over 312 "
                                                             "(record all layers, and real prompts)\n");
    assert_string_equal(notes_with("largest_sum", "\"Infinity\""), "");
}

static void experts(void **state)
{
    (void)state;
    assert_string_equal(notes_with("routed", "5"),
                        "not shown in gptq_gemm: faults in the weights of 3 of 8 experts, which got no row (record more prompts)\n");
}

/* A manifest may say anything. */
static void nonsense(void **state)
{
    (void)state;
    assert_string_equal(notes(""), "");
    assert_string_equal(notes("\"kind\":7,\"zero_points\":\"equal\""), "");
    assert_string_equal(notes("\"kind\":\"x\",\"zero_points\":[],\"scales\":1,\"n_divisor\":-64,\"k_divisor\":\"a\",\"m_classes\":1,"
                              "\"largest_sum\":\"NaN\",\"experts\":-1,\"routed\":-2"), "");
    td_op_variety_notes(NULL, NULL);
}

/* All that a replay can say of 16 kinds has a place in the lane; what is more is counted. */
static void many_kinds(void **state)
{
    static const char all[] = "{\"zero_points\":\"equal\",\"scales\":\"equal\",\"order\":\"of groups\",\"n_divisor\":256,\"k_divisor\":256,"
                              "\"m_classes\":[\"M=1\"],\"largest_a\":1,\"largest_sum\":1,\"experts\":8,\"routed\":1}";
    struct td_lane lanes[TD_N_LANES], *lane = &lanes[TD_LANE_OPS];
    cJSON *v = cJSON_CreateArray(), *k;
    char name[20];
    int i;

    (void)state;
    td_lanes_init(lanes);
    for (i = 0; i < 18; i++) {
        k = td_json_parse(all, strlen(all), NULL);
        assert_non_null(k);
        snprintf(name, sizeof name, "kind_%d", i);
        cJSON_AddStringToObject(k, "kind", name);
        cJSON_AddItemToArray(v, k);
    }
    td_lane_note(lane, TD_PASS, "the ops are good");
    td_op_variety_notes(v, lane);
    assert_int_equal(lane->n_more, 0);
    assert_int_equal(lane->n_notes, 1 + 16 * 8 + 1);
    assert_non_null(strstr(lane->notes[16 * 8].text, "not shown in kind_15: faults in the weights of 7 of 8 experts"));
    assert_string_equal(lane->notes[16 * 8 + 1].text, "what 2 more kinds of op do not show was not looked at");
    td_lanes_release(lanes);
    cJSON_Delete(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_of_what_shows), cmocka_unit_test(weights), cmocka_unit_test(sizes), cmocka_unit_test(rows),
        cmocka_unit_test(overflow), cmocka_unit_test(experts), cmocka_unit_test(nonsense), cmocka_unit_test(many_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
