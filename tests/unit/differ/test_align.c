/* test_align.c - what may be compared, and which answers belong together.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "common/json.h"
#include "differ/align.h"

static int check(const char *a, const char *b, struct td_error *err)
{
    cJSON *ja = td_json_parse(a, strlen(a), NULL), *jb = td_json_parse(b, strlen(b), NULL);
    int rc;

    assert_non_null(ja);
    assert_non_null(jb);
    td_error_clear(err);
    rc = td_align_check(ja, "BASE", jb, "NEW", err);
    cJSON_Delete(ja);
    cJSON_Delete(jb);
    return rc;
}

static void test_other_model_or_sampling_is_refused_and_both_are_shown(void **state)
{
    struct td_error err;

    (void)state;
    assert_int_equal(check("{\"server\":{\"model\":\"qwen\"}}", "{\"server\":{\"model\":\"llama\"}}", &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "qwen"));
    assert_non_null(strstr(err.msg, "llama"));
    assert_non_null(strstr(err.msg, "BASE"));
    assert_int_equal(check("{\"sampling\":{\"temperature\":0,\"seed\":0}}", "{\"sampling\":{\"temperature\":0.7,\"seed\":0}}", &err),
                     TD_EINVAL);
    assert_non_null(strstr(err.msg, "sampling.temperature"));
    assert_non_null(strstr(err.msg, "0.7"));
    assert_int_equal(check("{\"suite\":{\"hash\":\"aa\"}}", "{\"suite\":{\"hash\":\"bb\"}}", &err), TD_EINVAL);
}

static void test_what_one_side_does_not_say_is_not_compared(void **state)
{
    struct td_error err;

    (void)state;
    assert_int_equal(check("{\"server\":{\"model\":\"qwen\",\"version\":\"1\"},\"sampling\":{\"temperature\":0.0,\"top_p\":1}}",
                           "{\"server\":{\"model\":\"qwen\",\"version\":\"2\"},\"sampling\":{\"temperature\":0}}", &err), TD_OK);
    assert_int_equal(check("{\"server\":{\"model\":\"qwen\"}}", "{}", &err), TD_OK);
    assert_int_equal(check("{\"server\":{\"model\":\"qwen\"}}", "{\"server\":{\"model\":\"\"}}", &err), TD_OK);
}

static struct td_exchange answer(uint32_t stream, const char *id, int32_t repeat, enum td_phase phase)
{
    struct td_exchange x;

    memset(&x, 0, sizeof x);
    x.stream = stream;
    x.prompt_id = (char *)(uintptr_t)id;
    x.repeat = repeat;
    x.phase = phase;
    return x;
}

static void test_answers_of_a_prompt_come_together_in_the_order_asked(void **state)
{
    struct td_exchange base[] = {answer(5, "zebra", 1, TD_PHASE_TIMED), answer(1, "zebra", 0, TD_PHASE_TIMED),
                                 answer(0, "warm", 0, TD_PHASE_WARMUP), answer(2, "ant", 0, TD_PHASE_TIMED),
                                 answer(9, "ant", 0, TD_PHASE_TAPPED)};
    struct td_exchange now[] = {answer(1, "ant", 0, TD_PHASE_TIMED), answer(2, "zebra", 0, TD_PHASE_TIMED),
                                answer(3, "bee", 0, TD_PHASE_TIMED)};
    struct td_exchange more[] = {answer(1, "ant", 0, TD_PHASE_TIMED)};
    struct td_side sides[] = {{.role = TD_BASE, .xs = base, .n_xs = 5}, {.role = TD_NEW, .xs = now, .n_xs = 3},
                              {.role = TD_NEW, .round = 1, .xs = more, .n_xs = 1}};
    struct td_groups g;
    struct td_error err = {0, ""};

    (void)state;
    assert_int_equal(td_align_exchanges(sides, 3, &g, &err), TD_OK);
    assert_int_equal(g.n, 3); /* the warm-up is no prompt */
    assert_string_equal(g.group[0].prompt_id, "zebra");
    assert_string_equal(g.group[1].prompt_id, "ant");
    assert_string_equal(g.group[2].prompt_id, "bee");
    assert_int_equal(g.group[0].n[TD_BASE], 2);
    assert_int_equal(g.group[0].by_role[TD_BASE][0].x->repeat, 0);
    assert_int_equal(g.group[1].n[TD_NEW], 2);
    assert_int_equal(g.group[1].by_role[TD_NEW][1].round, 1);
    assert_int_equal(g.group[2].n[TD_BASE], 0);
    td_groups_release(&g);
}

/* Rounds that serve timings alone are not among what the lanes of answers see. */
static void test_lanes_of_answers_see_the_first_rounds(void **state)
{
    enum { ROUNDS = TD_ANSWER_ROUNDS + 2 };
    struct td_exchange xs[2 * ROUNDS + 1];
    struct td_side sides[2 * ROUNDS + 1];
    struct td_groups all, some;
    struct td_error err = {0, ""};

    (void)state;
    for (int i = 0; i < 2 * ROUNDS + 1; i++) {
        xs[i] = (struct td_exchange){.prompt_id = (char *)(uintptr_t)"a", .stream = 1};
        sides[i] = (struct td_side){.role = i == 0 ? TD_BASE : i % 2 ? TD_NEW : TD_LIVE, .round = i ? (i - 1) / 2 : 0, .xs = &xs[i], .n_xs = 1};
    }
    assert_int_equal(td_align_exchanges(sides, 2 * ROUNDS + 1, &all, &err), TD_OK);
    assert_int_equal(td_groups_of_first_rounds(&all, &some, &err), TD_OK);
    assert_int_equal(all.group[0].n[TD_NEW], ROUNDS);
    assert_int_equal(some.group[0].n[TD_NEW], TD_ANSWER_ROUNDS);
    assert_int_equal(some.group[0].n[TD_LIVE], TD_ANSWER_ROUNDS);
    assert_int_equal(some.group[0].n[TD_BASE], 1);
    for (size_t i = 0; i < TD_ANSWER_ROUNDS; i++)
        assert_int_equal(some.group[0].by_role[TD_NEW][i].round, i);
    td_groups_release(&some);
    td_groups_release(&all);
}

static void test_counterpart_prefers_repeat_and_phase(void **state)
{
    struct td_exchange base[] = {answer(1, "p", 0, TD_PHASE_TIMED), answer(2, "p", 1, TD_PHASE_TIMED), answer(3, "p", 1, TD_PHASE_TAPPED)};
    struct td_side side = {.role = TD_BASE, .xs = base, .n_xs = 3};
    struct td_groups g;
    struct td_error err = {0, ""};
    struct td_exchange x = answer(1, "p", 1, TD_PHASE_TAPPED);

    (void)state;
    assert_int_equal(td_align_exchanges(&side, 1, &g, &err), TD_OK);
    assert_int_equal(td_groups_counterpart(&g.group[0], &x)->stream, 3);
    x.phase = TD_PHASE_TIMED;
    assert_int_equal(td_groups_counterpart(&g.group[0], &x)->stream, 2);
    x.repeat = 9; /* the replay asked more often */
    assert_int_equal(td_groups_counterpart(&g.group[0], &x)->stream, 1);
    td_groups_release(&g);
}

/* So many answers to one prompt that comparing each with each would take hours. */
static void test_too_many_answers_to_a_prompt_are_refused(void **state)
{
    enum { N = 4000 };
    static struct td_exchange base[N], now[N];
    struct td_side sides[] = {{.role = TD_BASE, .xs = base, .n_xs = N}, {.role = TD_NEW, .xs = now, .n_xs = N}};
    struct td_groups g;
    struct td_error err = {0, ""};
    size_t i;

    (void)state;
    for (i = 0; i < N; i++) {
        base[i] = answer((uint32_t)i, "zebra", (int32_t)i, TD_PHASE_TIMED);
        now[i] = base[i];
    }
    base[7].n_tokens = 100;
    assert_int_equal(td_align_exchanges(sides, 2, &g, &err), TD_OK);
    td_groups_release(&g);
    base[7].n_tokens = 1000;
    assert_int_equal(td_align_exchanges(sides, 2, &g, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "8000 answers to the prompt \"zebra\", of up to 1000 tokens"));
    base[7].n_tokens = INT32_MAX;
    td_error_clear(&err);
    assert_int_equal(td_align_exchanges(sides, 2, &g, &err), TD_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_model_or_sampling_is_refused_and_both_are_shown),
        cmocka_unit_test(test_what_one_side_does_not_say_is_not_compared),
        cmocka_unit_test(test_answers_of_a_prompt_come_together_in_the_order_asked),
        cmocka_unit_test(test_lanes_of_answers_see_the_first_rounds),
        cmocka_unit_test(test_counterpart_prefers_repeat_and_phase),
        cmocka_unit_test(test_too_many_answers_to_a_prompt_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
