/* test_op_plan.c - the plan of a replay: what fits into the time, its share, its file.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "replayer/op_order.h"
#include "replayer/op_plan.h"
#include "replayer/replay_options.h"

static double seconds_of(const struct td_op_plan_cost *c, const int64_t *keep, size_t n)
{
    double s = 0;
    size_t i;

    for (i = 0; i < n; i++)
        s += (double)(keep[i] - c[i].done) * c[i].cost_s;
    return s;
}

/* Cheap groups are judged whole, dear ones share what is left. */
static void time_is_shared(void **state)
{
    const struct td_op_plan_cost c[] = {{1000, 3, 4, 0.001}, {500, 3, 4, 0.1}, {500, 1, 4, 0.4}, {2, 1, 2, 0.5}};
    int64_t keep[4];

    (void)state;
    td_op_plan_fit(c, 4, 20, keep);
    assert_int_equal(keep[0], 1000);
    assert_int_equal(keep[3], 2);
    assert_true(keep[1] >= 92 && keep[1] <= 98);
    assert_true(keep[2] >= 20 && keep[2] <= 25);
    assert_true(seconds_of(c, keep, 4) <= 20);
    td_op_plan_fit(c, 4, 1e6, keep);
    assert_true(keep[0] == 1000 && keep[1] == 500 && keep[2] == 500 && keep[3] == 2);
}

/* One op of each group is judged whatever that takes; one of each layer where there is time for all. */
static void no_group_is_left_out(void **state)
{
    const struct td_op_plan_cost c[] = {{1000, 1, 10, 1}, {500, 1, 32, 1}, {7, 0, 7, 100}};
    int64_t keep[3];

    (void)state;
    td_op_plan_fit(c, 3, -5, keep);
    assert_true(keep[0] == 1 && keep[1] == 1 && keep[2] == 1);
    td_op_plan_fit(c, 3, 741, keep);
    assert_true(keep[0] >= 10 && keep[1] >= 32 && keep[2] == 7);
}

static char kind[] = "gptq_gemm";

static void add(struct td_op_list *l, int64_t number, int m, const char *layer)
{
    struct td_op op = {.op = number, .step = number, .kind = kind, .layer = (char *)(uintptr_t)layer, .attrs = cJSON_CreateObject()};

    cJSON_AddNumberToObject(op.attrs, "m", m);
    assert_int_equal(td_op_list_add(l, &op, true, NULL), TD_OK);
    cJSON_Delete(op.attrs);
}

static void make_list(struct td_op_list *l)
{
    int i;

    memset(l, 0, sizeof *l);
    for (i = 0; i < 40; i++)
        add(l, i, i % 2 ? 1 : 20, i % 4 < 2 ? "a" : "b");
    assert_int_equal(td_op_order_make(l, NULL), TD_OK);
}

static void the_share_says_what_is_in_it(void **state)
{
    struct td_op_list l;
    struct td_op_share s;
    char words[TD_OP_SHARE_WORDS];

    (void)state;
    make_list(&l);
    td_op_list_keep(&l, (int64_t[]){2, 2});
    assert_int_equal(td_op_plan_share(&l, &s, NULL), TD_OK);
    assert_string_equal(td_op_share_words(&s, words), "judging 4 of 40 ops, each kernel, shape, M class and layer at least once");
    td_op_list_keep(&l, (int64_t[]){2, 1});
    assert_int_equal(td_op_plan_share(&l, &s, NULL), TD_OK);
    assert_string_equal(td_op_share_words(&s, words), "judging 3 of 40 ops, each kernel, shape and M class at least once");
    td_op_list_keep(&l, (int64_t[]){2, 0});
    assert_int_equal(td_op_plan_share(&l, &s, NULL), TD_OK);
    assert_string_equal(td_op_share_words(&s, words), "judging 2 of 40 ops");
    td_op_list_release(&l);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A plan that was written chooses the same ops again, from a manifest and from a report. */
static void a_plan_is_found_again(void **state)
{
    char path[] = "/tmp/td-plan-XXXXXX", text[4096], *json;
    static const char *const AROUND[] = {"{\"replay\":{\"op_plan\":%s}}", "{\"fixtures\":[{},{\"replay\":{\"op_plan\":%s}}]}",
                                         ("{\"reports\":[{\"fixtures\":[{\"replay\":{\"op_plan\":{\"fixture\":\"other\"}}}]},"
                                          "{\"fixtures\":[{\"replay\":{\"op_plan\":%s}}]}]}")};
    struct td_op_list l, again;
    struct td_op_share s;
    cJSON *plan;
    int64_t left_out;
    size_t i, k;

    (void)state;
    close(mkstemp(path));
    make_list(&l);
    td_op_list_keep(&l, (int64_t[]){5, 3});
    assert_int_equal(td_op_plan_share(&l, &s, NULL), TD_OK);
    plan = td_op_plan_json(&l, &s, "time", 120, "id1");
    json = cJSON_PrintUnformatted(plan);
    for (k = 0; k < 3; k++) {
        cJSON *found = NULL;
        struct td_error err = {0};

        snprintf(text, sizeof text, AROUND[k], json);
        write_text(path, text);
        assert_int_equal(td_op_plan_load(path, "id1", &found, &err), TD_OK);
        make_list(&again);
        assert_int_equal(td_op_plan_choose(found, &again, &left_out, &err), TD_OK);
        assert_int_equal(left_out, 32);
        for (i = 0; i < l.n; i++)
            assert_int_equal(again.items[i].chosen, l.items[i].chosen);
        td_op_list_release(&again);
        cJSON_Delete(found);
        assert_int_equal(td_op_plan_load(path, "id2", &found, &err), TD_EINVAL);
        assert_non_null(strstr(err.msg, "another fixture"));
    }
    cJSON_free(json);
    cJSON_Delete(plan);
    td_op_list_release(&l);
    unlink(path);
}

/* The first ops of a group that are judged are timed: those of a plan, not those that it leaves out. */
static void turns_count_planned_ops(void **state)
{
    cJSON *plan = td_json_parse("{\"ops\":[[0,7]]}", 15, NULL);
    int64_t left_out;
    struct td_op_list l;
    int first[2] = {0}, i;

    (void)state;
    make_list(&l);
    assert_non_null(plan);
    assert_int_equal(td_op_list_sample(&l, 0, NULL), TD_OK);
    assert_int_equal(td_op_plan_choose(plan, &l, &left_out, NULL), TD_OK);
    for (i = 0; i < 40; i++) {
        assert_int_equal(l.items[i].turn >= 0, i < 8);
        first[i % 2] += l.items[i].turn >= 0 && l.items[i].turn < 2;
    }
    assert_true(first[0] == 2 && first[1] == 2);
    cJSON_Delete(plan);
    td_op_list_release(&l);
}

static void bad_plans_are_refused(void **state)
{
    static const char *const BAD[] = {"{\"ops\":[[3,1]]}", "{\"ops\":[[1,3],[3,4]]}", "{\"ops\":[7]}", "{\"ops\":[[-1,2]]}",
                                      "{\"ops\":[[38,41]]}", "{\"ops\":[[0,9223372036854775807]]}", "{\"ops\":[[\"a\",\"b\"]]}",
                                      "{\"ops\":[[0.5,1.5]]}", "{\"ops\":[[0,1.5]]}", "{\"ops\":[[0,1,2]]}"};
    struct td_op_list l;
    int64_t left_out;
    size_t i;

    (void)state;
    make_list(&l);
    for (i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct td_error err = {0};
        cJSON *plan = td_json_parse(BAD[i], strlen(BAD[i]), &err);

        assert_non_null(plan);
        assert_int_equal(td_op_plan_choose(plan, &l, &left_out, &err), TD_EINVAL);
        cJSON_Delete(plan);
    }
    td_op_list_release(&l);
}

static void times(void **state)
{
    static const struct { const char *text; double s; } GOOD[] = {{"90", 90}, {"90s", 90}, {"1.5m", 90}, {"15min", 900}, {"2h", 7200}, {"500ms", 0.5}, {"all", 0}};
    static const char *const BAD[] = {"", "s", "0", "-1", "1d", "0.1ms", "1e9h", "inf", "nan", "all of it", "90 s", "0x10", "0x10s", "1e2", "1.", ".5", "1.5.2",
                                      "00000000000000000000000000000000000000000000000090"};
    double s;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_int_equal(td_time_parse(GOOD[i].text, &s, NULL), TD_OK);
        assert_true(s > GOOD[i].s - 1e-9 && s < GOOD[i].s + 1e-9);
    }
    for (i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(td_time_parse(BAD[i], &s, NULL), TD_EINVAL);
}

static void sizes(void **state)
{
    static const struct { const char *text; int64_t bytes; } GOOD[] = {{"0", 0}, {"100", 100}, {"4G", (int64_t)4 << 30}, {"1.5K", 1536}};
    static const char *const BAD[] = {"", "G", "-1", "0x10", "0x10G", "1e3", "4GB", "1.G"};
    int64_t bytes;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_int_equal(td_cache_size_parse(GOOD[i].text, &bytes, NULL), TD_OK);
        assert_int_equal(bytes, GOOD[i].bytes);
    }
    for (i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(td_cache_size_parse(BAD[i], &bytes, NULL), TD_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_is_shared),        cmocka_unit_test(no_group_is_left_out), cmocka_unit_test(the_share_says_what_is_in_it),
        cmocka_unit_test(a_plan_is_found_again), cmocka_unit_test(bad_plans_are_refused), cmocka_unit_test(turns_count_planned_ops), cmocka_unit_test(times), cmocka_unit_test(sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
