/* test_slices.c - sums over slices: which slices there are, and their way through JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "format/slices.h"

static void slices_by_size(void **state)
{
    struct td_slices_layout l;

    (void)state;
    td_slices_layout_of(1, 4096, TD_SLICES_FIRST_TAIL, &l); /* one row has no classes of rows */
    assert_int_equal(l.cols.n, 64);
    assert_int_equal(l.rows.n, 0);
    assert_int_equal(l.col_tails.n, 8);
    assert_int_equal(l.row_tails.n, 0);
    assert_int_equal(l.n, 73);
    td_slices_layout_of(9, 40, TD_SLICES_FIRST_TAIL, &l);
    assert_int_equal(l.cols.n, 40);
    assert_int_equal(l.rows.n, 9);
    assert_int_equal(l.col_tails.n, 6); /* 1, 2 ... 32 */
    assert_int_equal(l.row_tails.n, 4);
    assert_int_equal(l.row_tails.first, 1 + 40 + 9 + 6);
    td_slices_layout_of(9, 40, TD_SLICES_OLDER_FIRST_TAIL, &l);
    assert_int_equal(l.col_tails.n, 3);
    assert_int_equal(l.row_tails.n, 1);
    assert_int_equal(l.n, 54);
    td_slices_layout_of(1 << 20, 1 << 20, TD_SLICES_FIRST_TAIL, &l);
    assert_int_equal(l.n, TD_SLICES_MAX);
    assert_int_equal(td_slices_tail_start(200, 128), 128);
    assert_int_equal(td_slices_tail_start(200, 1), 199);
    assert_int_equal(td_slices_tail_start(256, 128), 128); /* a whole tile is the last one, too */
    assert_int_equal(td_slices_count(10, 4, 1), 3);
    assert_int_equal(td_slices_count(10, 4, 2), 2);
    assert_int_equal(td_slices_count(3, 64, 3), 0);
}

#define SUMS 60 /* of 9 rows and 40 columns */
#define OLDER 54 /* of these, without tiles of 1, 2 and 4 */

static struct td_slices sample(void)
{
    struct td_slices s = {.rows = 9, .cols = 40, .first_tail = TD_SLICES_FIRST_TAIL};
    int k, i;

    for (k = 0; k < TD_SLICE_SUMS; k++)
        for (i = 0; i < SUMS; i++)
            s.sum[k][i] = (float)(sin(k * 100 + i) * pow(10, i % 20 - 10));
    for (i = 0; i < SUMS; i++) {
        s.sum[TD_SUM_XX][i] = fabsf(s.sum[TD_SUM_XX][i]);
        s.sum[TD_SUM_EE][i] = fabsf(s.sum[TD_SUM_EE][i]);
    }
    return s;
}

static void json_and_back(void **state)
{
    const struct td_slices s = sample();
    struct td_slices back;
    cJSON *json = td_slices_json(&s);
    char *text;
    int k, i;

    (void)state;
    assert_non_null(json);
    text = cJSON_PrintUnformatted(json);
    assert_in_range(strlen(text), 4 * 4 * SUMS, 4 * 4 * SUMS + 100); /* four letters a sum */
    cJSON_free(text);
    assert_true(td_slices_read(json, &back));
    assert_true(back.rows == 9 && back.cols == 40 && back.first_tail == TD_SLICES_FIRST_TAIL);
    for (k = 0; k < TD_SLICE_SUMS; k++)
        for (i = 0; i < SUMS; i++)
            assert_true(fabsf(back.sum[k][i] - s.sum[k][i]) <= 0x1p-16f * fabsf(s.sum[k][i]));
    cJSON_Delete(json);
}

/* Replace a member of sound sums and read them. */
static bool reads_with(const char *key, cJSON *value)
{
    const struct td_slices s = sample();
    struct td_slices back;
    cJSON *json = td_slices_json(&s);
    bool reads;

    assert_true(cJSON_ReplaceItemInObject(json, key, value));
    reads = td_slices_read(json, &back);
    assert_int_equal(back.rows, reads ? 9 : 0);
    cJSON_Delete(json);
    return reads;
}

static void unfit_sums_are_refused(void **state)
{
    const char nan[] = "f8AAf8AAf8AA"; /* 7fc000: NaN */
    struct td_slices back;
    char text[4 * OLDER + 1];
    int i;

    (void)state;
    for (i = 0; i < OLDER; i++)
        memcpy(text + 4 * i, "P4AA", 4); /* 3f8000: 1 */
    text[4 * OLDER] = '\0';
    assert_true(reads_with("ee", cJSON_CreateString(text)));
    memcpy(text + 40, nan, 4);
    assert_false(reads_with("e", cJSON_CreateString(text)));
    memcpy(text + 40, "v4AA", 4); /* bf8000: -1 */
    assert_true(reads_with("e", cJSON_CreateString(text)));
    assert_false(reads_with("xx", cJSON_CreateString(text)));
    assert_false(reads_with("ee", cJSON_CreateString(text)));
    text[40] = '!';
    assert_false(reads_with("e", cJSON_CreateString(text)));
    assert_false(reads_with("e", cJSON_CreateString("P4AA")));
    assert_false(reads_with("e", cJSON_CreateNumber(1)));
    assert_false(reads_with("rows", cJSON_CreateNumber(10)));
    assert_false(reads_with("rows", cJSON_CreateNumber(-9)));
    assert_false(reads_with("cols", cJSON_CreateNumber(9e18)));
    assert_false(reads_with("small_tiles", cJSON_CreateNumber(2)));
    assert_false(reads_with("small_tiles", cJSON_CreateObject()));
    assert_false(td_slices_read(NULL, &back));
}

/* A replay of an older version has no tiles below 8. */
static void older_sums_are_read(void **state)
{
    struct td_slices s = sample(), back;
    cJSON *json;

    (void)state;
    json = td_slices_json(&s);
    cJSON_DeleteItemFromObject(json, "small_tiles"); /* that is all that an older one lacks */
    assert_true(td_slices_read(json, &back));
    assert_true(back.first_tail == TD_SLICES_OLDER_FIRST_TAIL);
    cJSON_Delete(json);
    s.first_tail = TD_SLICES_OLDER_FIRST_TAIL;
    json = td_slices_json(&s);
    assert_null(cJSON_GetObjectItem(json, "small_tiles"));
    assert_true(td_slices_read(json, &back));
    assert_true(back.rows == 9 && back.cols == 40 && back.first_tail == TD_SLICES_OLDER_FIRST_TAIL);
    assert_true(fabsf(back.sum[TD_SUM_E][53] - s.sum[TD_SUM_E][53]) <= 0x1p-16f * fabsf(s.sum[TD_SUM_E][53]));
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_by_size),
        cmocka_unit_test(json_and_back),
        cmocka_unit_test(unfit_sums_are_refused),
        cmocka_unit_test(older_sums_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
