/* test_memory.c - what is read asks for room first: sizes of --max-memory, one record, all together.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "common/memory.h"

#define MIB ((uint64_t)1 << 20)

static void test_default(void **state)
{
    (void)state;
    assert_null(td_memory_given());
    assert_true(td_memory_max() >= TD_MEMORY_MIN);
    assert_true(td_memory_used() > 0);
}

static void test_sizes(void **state)
{
    static const struct { const char *text; int64_t bytes; } good[] = {
        {"64M", 64 << 20}, {"512M", 512 << 20}, {"1G", 1 << 30}, {"1GiB", 1 << 30}, {"1.5g", 3LL << 29}, {"2T", 2LL << 40}, {"100000000", 100000000}};
    static const char *const bad[] = {"", "G", "x", "1X", "1GG", "-1G", "nan", "1e30", "64M ", "1K", "0", "67108863"};
    struct td_error err;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(td_memory_set(good[i].text, NULL), TD_OK);
        assert_int_equal(td_memory_max(), good[i].bytes);
        assert_string_equal(td_memory_given(), good[i].text);
    }
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(td_memory_set(bad[i], &err), TD_EINVAL);
        assert_non_null(strstr(err.msg, "--max-memory"));
        assert_int_equal(td_memory_max(), 100000000);
    }
}

/* What is held counts, whoever holds it; what was freed does not. */
static void test_room(void **state)
{
    uint64_t used = (uint64_t)td_memory_used() + (256 * MIB), i;
    struct td_error err = {0};
    char text[32], *held;

    (void)state;
    snprintf(text, sizeof text, "%llu", (unsigned long long)used);
    assert_int_equal(td_memory_set(text, &err), TD_OK);
    assert_int_equal(td_memory_room(128 * MIB, "x", &err), TD_OK);
    assert_int_equal(td_memory_room(600 * MIB, "fx/ops: frame 3", &err), TD_ENOMEM);
    assert_non_null(strstr(err.msg, "fx/ops: frame 3: needs up to 600.0 MiB"));
    assert_non_null(strstr(err.msg, "--max-memory SIZE allows more"));
    held = malloc(200 * MIB);
    assert_non_null(held);
    for (i = 0; i < 200 * MIB; i += 4096)
        ((volatile char *)held)[i] = 1;
    assert_int_equal(td_memory_room(128 * MIB, "x", NULL), TD_ENOMEM);
    assert_int_equal(td_memory_room(1, "x", NULL), TD_OK);
    free(held);
    assert_int_equal(td_memory_room_record(used / TD_MEMORY_RECORD_PART + 1, "x", NULL), TD_ENOMEM);
}

/* What other processes hold for this one counts; what somebody else's code in this process holds does not. */
static void test_beside(void **state)
{
    uint64_t left;

    (void)state;
    td_memory_allow(512 * MIB);
    left = td_memory_left();
    assert_in_range(left, 448 * MIB, 512 * MIB);
    td_memory_beside((int64_t)(300 * MIB));
    assert_in_range(td_memory_left(), left - 364 * MIB, left - 300 * MIB);
    assert_int_equal(td_memory_room(300 * MIB, "x", NULL), TD_ENOMEM);
    td_memory_allow(400 * MIB);
    assert_int_equal(td_memory_room(300 * MIB, "x", NULL), TD_OK);
    td_memory_beside(-(int64_t)(300 * MIB));
    td_memory_beside((int64_t)1 << 40);
    assert_int_equal(td_memory_left(), 0);
    td_memory_beside(-((int64_t)1 << 40));
}

/* A tree takes up to a hundred times its text. */
static void test_json(void **state)
{
    size_t n = 8 << 20, i;
    char *text = malloc(n + 1);
    struct td_error err = {0};
    cJSON *tree;

    (void)state;
    assert_non_null(text);
    assert_int_equal(td_memory_set("1G", &err), TD_OK);
    text[0] = '[';
    for (i = 1; i < n - 3; i += 2) {
        text[i] = '0';
        text[i + 1] = ',';
    }
    strcpy(text + i, "0]");
    tree = td_json_parse(text, strlen(text), &err);
    assert_null(tree);
    assert_int_equal(err.code, TD_ENOMEM);
    assert_non_null(strstr(err.msg, "--max-memory SIZE allows more"));
    assert_int_equal(td_json_room(text, strlen(text), NULL), TD_ENOMEM);
    memset(text, ' ', n);             /* the same length of a text is no matter */
    text[0] = text[n - 1] = '"';
    text[n] = '\0';
    tree = td_json_parse(text, n, NULL);
    assert_non_null(tree);
    assert_int_equal(td_json_room(text, n, NULL), TD_OK);
    cJSON_Delete(tree);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_default), cmocka_unit_test(test_sizes), cmocka_unit_test(test_room), cmocka_unit_test(test_beside),
                                       cmocka_unit_test(test_json)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
