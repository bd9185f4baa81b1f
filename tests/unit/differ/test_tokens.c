/* test_tokens.c - forks, gaps, noise and what the tokens lane makes of them.
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

#include "tests/unit/differ/small_world.h"

#define LEN 12
#define K 3

/* An answer that follows ids 100, 101, ... until `fork`, then other ids; gap: between the two best at every position. */
static struct td_exchange *add(struct world *w, enum td_role role, const char *prompt, int repeat, int fork, double gap)
{
    struct td_exchange *x = add_answer(w, role, prompt, repeat, LEN, K);
    int i;

    for (i = 0; i < LEN; i++) {
        bool off = fork >= 0 && i >= fork;

        x->token_ids[i] = off ? 500 + i : 100 + i;
        x->logprobs[i] = -0.2f;
        x->top[i * K] = (struct td_alt){x->token_ids[i], -0.2f};
        x->top[i * K + 1] = (struct td_alt){off ? 100 + i : 500 + i, (float)(-0.2 - gap)};
        x->top[i * K + 2] = (struct td_alt){900, -5.0f};
    }
    return x;
}

static void measure(struct world *w)
{
    struct td_error err = {0, ""};

    align_world(w);
    assert_int_equal(td_tokens_measure(&w->g, &w->policy, &w->found.tokens, &err), TD_OK);
}

static enum td_verdict judge(struct world *w)
{
    measure(w);
    td_damage_measure(&w->g, &w->policy, &w->found.tokens, &w->found.damage);
    td_tokens_judge(&w->found, &w->policy, &w->ops, &w->lane);
    return w->lane.verdict;
}

static const char *const PROMPTS[] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11"};
#define N_PROMPTS 12

static void test_equal_answers_pass(void **state)
{
    struct world *w = start_world(NULL);
    int p;

    (void)state;
    for (p = 0; p < N_PROMPTS; p++) {
        add(w, TD_BASE, PROMPTS[p], 0, -1, 0.3);
        add(w, TD_NEW, PROMPTS[p], 0, -1, 0.3);
    }
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->found.tokens.answers, N_PROMPTS);
    assert_true(w->found.tokens.mean_dlogprob == 0);
    stop(w);
}

static void test_the_fork_is_named_with_its_gap(void **state)
{
    struct world *w = start_world(NULL);

    (void)state;
    add(w, TD_BASE, "p", 0, 3, 0.1);
    add(w, TD_BASE, "p", 1, -1, 0.25);
    add(w, TD_NEW, "p", 0, 7, 0.3);
    measure(w);
    assert_int_equal(w->found.tokens.n_forks, 1);
    assert_int_equal(w->found.tokens.forks[0].at.position, 7); /* against the repeat that agrees longest */
    assert_int_equal(w->found.tokens.forks[0].good->repeat, 1);
    assert_true(fabs(w->found.tokens.forks[0].gap - 0.25) < 1e-6);
    assert_false(w->found.tokens.forks[0].outside_top_k);
    stop(w);
}

static void test_a_token_outside_the_alternatives_has_at_least_their_gap(void **state)
{
    struct world *w = start_world(NULL);
    struct td_exchange *x;

    (void)state;
    add(w, TD_BASE, "p", 0, -1, 0.25);
    x = add(w, TD_NEW, "p", 0, 7, 0.3);
    x->token_ids[7] = 4242;
    measure(w);
    assert_true(w->found.tokens.forks[0].outside_top_k);
    assert_true(fabs(w->found.tokens.forks[0].gap - 4.8) < 1e-5);
    stop(w);
}

static void test_an_answer_that_equals_any_repeat_is_no_fork(void **state)
{
    struct world *w = start_world(NULL);

    (void)state;
    add(w, TD_BASE, "p", 0, -1, 0.1);
    add(w, TD_BASE, "p", 1, 4, 0.1);
    add(w, TD_NEW, "p", 0, 4, 0.1);
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->found.tokens.n_forks, 0);
    stop(w);
}

static void test_texts_are_compared_where_ids_are_missing(void **state)
{
    struct td_exchange a, b;
    struct td_difference d;
    char *pa[] = {(char *)"the", (char *)" cat"}, *pb[] = {(char *)"the", (char *)" dog"};

    (void)state;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.text = (char *)"the cat";
    b.text = (char *)"the cap";
    a.text_len = b.text_len = 7;
    d = td_tokens_compare(&a, &b);
    assert_true(!d.equal && d.unit == TD_UNIT_BYTES && d.position == 6);
    a.token_text = pa;
    b.token_text = pb;
    a.n_tokens = b.n_tokens = 2;
    d = td_tokens_compare(&a, &b);
    assert_true(!d.equal && d.unit == TD_UNIT_PIECES && d.position == 1);
    a.token_ids = b.token_ids = (int32_t[]){5, 6};
    a.ids_complete = true; /* not on the other side: ids that streamed incompletely prove nothing */
    assert_int_equal(td_tokens_compare(&a, &b).unit, TD_UNIT_PIECES);
    b.ids_complete = true;
    d = td_tokens_compare(&a, &b);
    assert_true(d.equal && d.unit == TD_UNIT_IDS);
    b.n_tokens = 1;
    d = td_tokens_compare(&a, &b);
    assert_true(!d.equal && d.position == 1);
}

/* A deterministic baseline and an honest build with other rounding: text alone cannot tell. */
static struct world *honest(int forked, double gap)
{
    struct world *w = start_world(NULL);
    int p, r;

    for (p = 0; p < N_PROMPTS; p++) {
        for (r = 0; r < 5; r++)
            add(w, TD_BASE, PROMPTS[p], r, -1, gap);
        add(w, TD_NEW, PROMPTS[p], 0, p < forked ? 3 + p % 4 : -1, gap);
    }
    return w;
}

static void test_forks_without_a_noise_floor_are_inconclusive(void **state)
{
    struct world *w = honest(8, 0.03);

    (void)state;
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(says(w, "no op was judged"));
    assert_true(says(w, "--calibrate"));
    stop(w);
}

static void test_forks_with_clean_ops_name_what_was_covered(void **state)
{
    struct world *w = honest(8, 0.03);

    (void)state;
    w->ops = (struct td_ops_view){.judged = true, .ops = 40, .bit_equal = 12, .coverage = "gptq_gemm 4 of 5 shapes x M classes"};
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(says(w, "4 of 5 shapes"));
    stop(w);
    w = honest(8, 0.03);
    w->ops = (struct td_ops_view){.judged = true, .ops = 40, .bit_equal = 40, .coverage = "all"};
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(says(w, "begins elsewhere"));
    stop(w);
    w = honest(8, 0.03); /* with ops of other kinds recorded, the first that departs is where */
    w->ops = (struct td_ops_view){.judged = true, .ops = 40, .bit_equal = 40, .compared = 90, .compared_equal = 80, .first_departs = "Qcur-0 ROPE"};
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(says(w, "all 40 GEMMs are bit-equal and texts differ: the difference begins at Qcur-0 ROPE"));
    stop(w);
    w = honest(8, 0.03);
    w->ops = (struct td_ops_view){.judged = true, .ops = 40, .bit_equal = 40, .compared = 90, .compared_equal = 90};
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(says(w, "in what was not recorded"));
    stop(w);
}

static void test_forks_with_worse_ops_are_a_regression(void **state)
{
    struct world *w = honest(2, 0.03);

    (void)state;
    w->ops = (struct td_ops_view){.judged = true, .ops = 40, .worse = 3};
    assert_int_equal(judge(w), TD_REGRESSED);
    stop(w);
}

/* Calibrated with another honest build that forks as often at like gaps. */
static void calibrate(struct world *w, int forked, double gap)
{
    int p;

    for (p = 0; p < N_PROMPTS; p++)
        add(w, TD_CALIBRATE, PROMPTS[p], 0, p < forked ? 2 + p % 5 : -1, gap);
}

static void test_calibration_makes_honest_forks_a_pass(void **state)
{
    struct world *w = honest(8, 0.03);

    (void)state;
    calibrate(w, 7, 0.03);
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->found.tokens.noise[1].forked, 7);
    assert_float_equal(w->found.tokens.gap_noise, 0.03, 1e-6);
    stop(w);
}

static void test_calibration_does_not_excuse_more_forks(void **state)
{
    struct world *w = honest(12, 0.03);

    (void)state;
    calibrate(w, 3, 0.03);
    assert_int_equal(judge(w), TD_INCONCLUSIVE); /* 12 of 12 where honest builds fork 3 of 12 */
    assert_true(says(w, "more prompts fork"));
    stop(w);
}

/* Gaps are the baseline's: honest forks fall on close calls, a bug's on clear ones. */
static void test_wide_gaps_are_not_noise(void **state)
{
    struct world *w = start_world(NULL);
    int p, r, i;

    (void)state;
    for (p = 0; p < N_PROMPTS; p++) {
        for (r = 0; r < 2; r++) {
            struct td_exchange *b = add(w, TD_BASE, PROMPTS[p], r, -1, 0.8);

            for (i = 5; i < LEN; i++)
                b->top[i * K + 1].logprob = -0.21f; /* close calls from token 5 on */
        }
        add(w, TD_NEW, PROMPTS[p], 0, p < 6 ? 2 : -1, 0.8);
        add(w, TD_CALIBRATE, PROMPTS[p], 0, p < 6 ? 5 : -1, 0.01);
    }
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_int_equal(w->found.tokens.prompts_over, 6);
    assert_true(w->found.tokens.gap_p < 0.01);
    assert_true(says(w, "larger gap"));
    stop(w);
}

/* One prompt of eight on a clearer call than any of the honest build's: chance, unless it is no close call at all. */
static void test_one_wider_gap_is_chance(void **state)
{
    static const double gaps[] = {0.1, 0.3, 1.2}; /* the noise's largest is 0.03: four times that is the limit */
    static const enum td_verdict want[] = {TD_PASS, TD_INCONCLUSIVE, TD_INCONCLUSIVE};
    int i, p, r;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct world *w = start_world(NULL);

        for (p = 0; p < N_PROMPTS; p++) {
            const double gap = p == 0 ? gaps[i] : 0.03;

            for (r = 0; r < 2; r++)
                add(w, TD_BASE, PROMPTS[p], r, -1, gap);
            add(w, TD_NEW, PROMPTS[p], 0, p < 8 ? 2 : -1, gap);
            add(w, TD_CALIBRATE, PROMPTS[p], 0, p > 0 && p < 9 ? 2 : -1, gap);
        }
        assert_int_equal(judge(w), want[i]);
        assert_int_equal(w->found.tokens.prompts_over, 1);
        assert_int_equal(w->found.tokens.gaps_hopeless, i > 0);
        assert_true(i == 0 || says(w, "no close call"));
        stop(w);
    }
}

/* With tokens.exact nothing excuses a fork: no noise, no honest build. */
static void test_exact_excuses_nothing(void **state)
{
    struct world *w = honest(1, 0.001);

    (void)state;
    calibrate(w, 7, 0.03);
    w->policy.tokens_exact = true;
    assert_int_equal(judge(w), TD_REGRESSED);
    assert_true(says(w, "1 of 12 answers differ"));
    stop(w);
    w = honest(0, 0.001);
    w->policy.tokens_exact = true;
    assert_int_equal(judge(w), TD_PASS);
    stop(w);
}

static void test_a_baseline_that_wavers_itself_excuses_like_forks(void **state)
{
    struct world *w = start_world(NULL);
    int p, r;

    (void)state;
    for (p = 0; p < N_PROMPTS; p++) {
        for (r = 0; r < 5; r++)
            add(w, TD_BASE, PROMPTS[p], r, p < 8 && r == 4 ? 6 : -1, 0.05); /* gptq_gemm's atomics */
        add(w, TD_NEW, PROMPTS[p], 0, p < 6 ? 8 : -1, 0.05);
    }
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->found.tokens.noise[0].forked, 8);
    stop(w);
}

static void test_lost_answers_are_a_regression_and_named(void **state)
{
    struct world *w = start_world(NULL);
    struct td_exchange *x;

    (void)state;
    add(w, TD_BASE, "p0", 0, -1, 0.1);
    add(w, TD_BASE, "p1", 0, -1, 0.1);
    add(w, TD_NEW, "p0", 0, -1, 0.1);
    x = add(w, TD_NEW, "p1", 0, -1, 0.1);
    x->error = (char *)"HTTP 500";
    x->error_kind = (char *)"http";
    assert_int_equal(judge(w), TD_REGRESSED);
    assert_true(says(w, "p1/0: HTTP 500"));
    stop(w);
}

static void test_errors_that_the_baseline_had_too_are_no_regression(void **state)
{
    struct world *w = start_world(NULL);

    (void)state;
    add(w, TD_BASE, "p0", 0, -1, 0.1);
    add(w, TD_NEW, "p0", 0, -1, 0.1);
    add(w, TD_BASE, "p1", 0, -1, 0.1)->error = (char *)"HTTP 400";
    add(w, TD_NEW, "p1", 0, -1, 0.1)->error = (char *)"HTTP 400";
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->found.tokens.errors_alike, 1);
    stop(w);
}

static void test_never_reached_is_broken(void **state)
{
    struct world *w = start_world(NULL);
    struct td_exchange *x;

    (void)state;
    add(w, TD_BASE, "p0", 0, -1, 0.1);
    x = add(w, TD_NEW, "p0", 0, -1, 0.1);
    x->error = (char *)"Connection refused";
    x->error_kind = (char *)"connect";
    assert_int_equal(judge(w), TD_BROKEN);
    stop(w);
}

static void test_no_exchanges_is_no_evidence(void **state)
{
    struct world *w = start_world(NULL);

    (void)state;
    add(w, TD_BASE, "p0", 0, -1, 0.1);
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    stop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_answers_pass),
        cmocka_unit_test(test_the_fork_is_named_with_its_gap),
        cmocka_unit_test(test_a_token_outside_the_alternatives_has_at_least_their_gap),
        cmocka_unit_test(test_an_answer_that_equals_any_repeat_is_no_fork),
        cmocka_unit_test(test_texts_are_compared_where_ids_are_missing),
        cmocka_unit_test(test_forks_without_a_noise_floor_are_inconclusive),
        cmocka_unit_test(test_forks_with_clean_ops_name_what_was_covered),
        cmocka_unit_test(test_forks_with_worse_ops_are_a_regression),
        cmocka_unit_test(test_calibration_makes_honest_forks_a_pass),
        cmocka_unit_test(test_calibration_does_not_excuse_more_forks),
        cmocka_unit_test(test_wide_gaps_are_not_noise), cmocka_unit_test(test_one_wider_gap_is_chance),
        cmocka_unit_test(test_a_baseline_that_wavers_itself_excuses_like_forks),
        cmocka_unit_test(test_exact_excuses_nothing),
        cmocka_unit_test(test_lost_answers_are_a_regression_and_named),
        cmocka_unit_test(test_errors_that_the_baseline_had_too_are_no_regression),
        cmocka_unit_test(test_never_reached_is_broken),
        cmocka_unit_test(test_no_exchanges_is_no_evidence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
