/* test_planned.c - the plan of a fixture, stated or inferred, and the words of its state.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "format/fixture.h"
#include "format/planned.h"

static char dir[] = "/tmp/test_planned.XXXXXX";

/* A fixture with these sections of facts (JSON), opened again. */
static struct td_fixture *fixture_of(const char *facts, const char *state, int exchanges)
{
    struct td_exchange x = {.stream = 1, .prompt_id = (char[]){"p"}};
    cJSON *all = cJSON_Parse(facts);
    const cJSON *section, *m;
    struct td_fixture *fx;
    struct td_writer *w;
    char path[TD_PATH_MAX];

    td_fs_join(path, sizeof path, dir, "fx", NULL);
    td_fs_remove_tree(path, NULL);
    assert_non_null(all);
    assert_int_equal(td_writer_create(path, NULL, &w, NULL), 0);
    cJSON_ArrayForEach(section, all)
        cJSON_ArrayForEach(m, section)
            assert_int_equal(td_writer_fact(w, section->string, m->string, m), 0);
    for (; exchanges; exchanges--)
        assert_int_equal(td_writer_exchange(w, &x), 0);
    assert_int_equal(td_writer_close(w, state, NULL), 0);
    assert_int_equal(td_fixture_open(path, &fx, NULL), 0);
    cJSON_Delete(all);
    return fx;
}

static struct td_planned planned_of(const char *facts)
{
    struct td_fixture *fx = fixture_of(facts, "complete", 1);
    struct td_planned p;

    td_planned_read(fx, &p);
    td_fixture_close(fx);
    return p;
}

static void a_stated_plan_is_read(void **state)
{
    struct td_planned p = planned_of("{\"plan\":{\"prompts\":10,\"repeats\":5,\"timed\":50,\"tapped\":"
                                     "10,\"scores\":20,\"failures_allowed\":true},"
                                     "\"suite\":{\"prompts\":99,\"repeat\":99}}");

    (void)state;
    assert_true(p.stated && p.failures_allowed);
    assert_int_equal(p.prompts, 10);
    assert_int_equal(p.repeats, 5);
    assert_int_equal(p.timed, 50);
    assert_int_equal(p.tapped, 10);
    assert_int_equal(p.scores, 20);
    assert_int_equal(p.ops, TD_PLAN_UNKNOWN);
}

/* Numbers of a manifest may be anything. */
static void odd_numbers_do_no_harm(void **state)
{
    struct td_planned p = planned_of("{\"plan\":{\"timed\":-7,\"tapped\":1e300,\"scores\":\"x\"}}");

    (void)state;
    assert_int_equal(p.timed, TD_PLAN_UNKNOWN);
    assert_true(p.tapped < INT64_MAX / 4);
    assert_int_equal(p.scores, TD_PLAN_UNKNOWN);
    p = planned_of("{\"suite\":{\"prompts\":1e300,\"repeat\":1e300}}");
    assert_true(p.timed < INT64_MAX / 4);
}

static void an_older_fixture_names_its_suite(void **state)
{
    struct td_planned p = planned_of("{\"suite\":{\"prompts\":3,\"repeat\":4},\"options\":{\"tapped_"
                                     "repeat\":2},\"tap\":{\"present\":true}}");

    (void)state;
    assert_false(p.stated);
    assert_int_equal(p.timed, 12);
    assert_int_equal(p.tapped, 6);
    assert_int_equal(p.scores, TD_PLAN_UNKNOWN);
    p = planned_of("{\"suite\":{\"prompts\":3,\"repeat\":4},\"tap\":{\"present\":false}}");
    assert_int_equal(p.tapped, 0);
    p = planned_of("{\"suite\":{\"prompts\":3,\"repeat\":4},\"replay\":{\"of\":\"x\",\"requests\":5}}");
    assert_int_equal(p.timed, 5);
    p = planned_of("{\"host\":{\"cores\":2}}");
    assert_int_equal(p.timed, TD_PLAN_UNKNOWN);
}

static void an_older_extract_without_requests_plans_none(void **state)
{
    struct td_fixture *fx = fixture_of(
        "{\"suite\":{\"prompts\":3,\"repeat\":4},\"extract\":{\"of\":\"x\"}}", "complete", 0);
    struct td_planned p;

    (void)state;
    td_planned_read(fx, &p);
    assert_int_equal(p.timed, TD_PLAN_UNKNOWN);
    td_fixture_close(fx);
}

static void expect_words(const char *facts, const char *state, bool whole, const char *want)
{
    struct td_fixture *fx = fixture_of(facts, state, 0);
    char words[TD_STATE_WORDS];

    assert_string_equal(td_fixture_state_words(td_fixture_manifest(fx), words), want);
    assert_int_equal(td_fixture_is_whole(td_fixture_manifest(fx)), whole);
    td_fixture_close(fx);
}

static void the_state_is_told_with_its_causes(void **state)
{
    cJSON *none = cJSON_CreateObject();
    char words[TD_STATE_WORDS], long_cause[3000];

    (void)state;
    expect_words("{}", "complete", true, "complete");
    expect_words("{\"seen\":{\"causes\":[\"a\",\"b\\u001b\"]}}", "incomplete", false,
                 "incomplete: a; b?");
    expect_words("{\"seen\":{\"causes\":[\"a\"]}}", "failures_allowed", true,
                 "failures allowed: a");
    assert_string_equal(td_fixture_state_words(none, words), "not stated");
    assert_false(td_fixture_is_whole(none));
    cJSON_Delete(none);
    snprintf(long_cause, sizeof long_cause, "{\"seen\":{\"causes\":[\"%01000d\",\"%01000d\",\"%0900d\"]}}", 1, 2, 3);
    none = cJSON_Parse(long_cause);
    assert_true(strlen(td_fixture_state_words(none, words)) < TD_STATE_WORDS);
    cJSON_Delete(none);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return td_fs_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stated_plan_is_read),
        cmocka_unit_test(odd_numbers_do_no_harm),
        cmocka_unit_test(an_older_fixture_names_its_suite),
        cmocka_unit_test(an_older_extract_without_requests_plans_none),
        cmocka_unit_test(the_state_is_told_with_its_causes),
    };

    return cmocka_run_group_tests_name("planned", tests, make_dir, remove_dir);
}
