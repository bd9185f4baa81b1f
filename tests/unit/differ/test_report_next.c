/* test_report_next.c - what a report says next: where speed alone has regressed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "differ/comparison.h"
#include "differ/lane_ops.h"
#include "differ/report_advice.h"

#define GOLDEN "fixtures/golden/v1-synthetic"

static struct td_comparison c;
static struct td_side side[2];
static struct td_ops_found ops;

static int open_world(void **state)
{
    struct td_error err = {0, ""};
    int i;

    (void)state;
    memset(&c, 0, sizeof c);
    td_lanes_init(c.lane);
    c.side = side;
    c.n_sides = 2;
    c.verdict = TD_REGRESSED;
    c.lane[TD_LANE_OPS].measured = &ops;
    for (i = 0; i < 2; i++)
        assert_int_equal(td_fixture_open(GOLDEN, &side[i].fx, &err), TD_OK);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    td_fixture_close(side[0].fx);
    td_fixture_close(side[1].fx);
    td_lanes_release(c.lane);
    return 0;
}

static void set_lane(enum td_lane_id id, enum td_verdict v)
{
    c.lane[id].asked = true;
    c.lane[id].verdict = v;
}

static cJSON *advice(void)
{
    struct td_buf text = TD_BUF_INIT(1 << 16);
    struct td_error err = {0, ""};
    struct td_jw w;
    cJSON *all;

    td_jw_init(&w, &text, false);
    td_jw_obj(&w, NULL);
    td_advice_write_next(&c, &w);
    td_jw_end(&w);
    all = td_json_parse(text.data, text.len, &err);
    assert_non_null(all);
    td_buf_release(&text);
    return all;
}

static const cJSON *step(const cJSON *all, int i)
{
    return cJSON_GetArrayItem(td_json_get(all, "next"), i);
}

static void a_slower_build_is_timed_again(void **state)
{
    cJSON *all;

    (void)state;
    c.gate_builds = "--build new.so --baseline-build old.so";
    c.gate_servers = "--server b:1 --baseline-server a:1";
    set_lane(TD_LANE_OPS, TD_PASS);
    set_lane(TD_LANE_SPEED, TD_REGRESSED);
    all = advice();
    assert_string_equal(td_json_get_str(step(all, 0), "command", ""),
                        "gate " GOLDEN " --server b:1 --baseline-server a:1 --build new.so "
                        "--baseline-build old.so --lanes speed --verbose");
    assert_non_null(strstr(td_json_get_str(step(all, 1), "text", ""), "--accept REASON"));
    cJSON_Delete(all);
}

static void where_no_builds_are_known_words_say_it(void **state)
{
    cJSON *all;

    (void)state;
    set_lane(TD_LANE_SPEED, TD_REGRESSED);
    all = advice();
    assert_true(cJSON_IsNull(td_json_get(step(all, 0), "command")));
    assert_string_equal(td_json_get_str(step(all, 0), "text", ""),
                        "time both again, and see each row");
    cJSON_Delete(all);
}

static void a_slower_and_wrong_build_is_wrong_first(void **state)
{
    cJSON *all;

    (void)state;
    c.gate_servers = "--server b:1";
    set_lane(TD_LANE_SPEED, TD_REGRESSED);
    set_lane(TD_LANE_SCORES, TD_REGRESSED);
    all = advice();
    assert_null(step(all, 0));
    cJSON_Delete(all);
}

static void a_pass_has_no_next_step(void **state)
{
    cJSON *all;

    (void)state;
    c.verdict = TD_PASS;
    set_lane(TD_LANE_SPEED, TD_PASS);
    all = advice();
    assert_null(step(all, 0));
    cJSON_Delete(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slower_build_is_timed_again, open_world, close_world),
        cmocka_unit_test_setup_teardown(where_no_builds_are_known_words_say_it, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_slower_and_wrong_build_is_wrong_first, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_pass_has_no_next_step, open_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
