/* test_damage.c - forks that no rounding explains are a regression by themselves; what honest builds
 * do is not.
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
#define N_PROMPTS 12

static const char *const PROMPTS[] = {"p0", "p1", "p2", "p3", "p4",  "p5",
                                      "p6", "p7", "p8", "p9", "p10", "p11"};

/* What an answer is like: where it forks (-1: nowhere), how far apart its two best tokens are, and
 * the logprob of each token that it chose. */
struct like { int fork; double gap, logprob; };

static struct td_exchange *add(struct world *w, enum td_role role, int prompt, int repeat,
                               struct like a)
{
    struct td_exchange *x = add_answer(w, role, PROMPTS[prompt], repeat, LEN, K);
    int i;

    for (i = 0; i < LEN; i++) {
        bool off = a.fork >= 0 && i >= a.fork;

        x->token_ids[i] = off ? 500 + i : 100 + i;
        x->logprobs[i] = (float)a.logprob;
        x->top[i * K] = (struct td_alt){x->token_ids[i], (float)a.logprob};
        x->top[i * K + 1] = (struct td_alt){off ? 100 + i : 500 + i, (float)(a.logprob - a.gap)};
        x->top[i * K + 2] = (struct td_alt){900, -9.0f};
    }
    return x;
}

static enum td_verdict judge(struct world *w)
{
    struct td_error err = {0, ""};

    align_world(w);
    assert_int_equal(td_tokens_measure(&w->g, &w->policy, &w->found.tokens, &err), TD_OK);
    td_damage_measure(&w->g, &w->policy, &w->found.tokens, &w->found.damage);
    td_tokens_judge(&w->found, &w->policy, &w->ops, &w->lane);
    return w->lane.verdict;
}

/* `clear` prompts of N_PROMPTS fork at a gap of `gap`, and the others at one of 0.1. */
static struct world *forks(const char *request, int clear, double gap)
{
    struct world *w = start_world(request);
    int p, r;

    for (p = 0; p < N_PROMPTS; p++) {
        struct like a = {-1, p < clear ? gap : 0.1, -0.2}, b = {3, a.gap, -0.2};

        for (r = 0; r < 2; r++)
            add(w, TD_BASE, p, r, a);
        add(w, TD_NEW, p, 0, b);
    }
    return w;
}

static void test_forks_at_clear_calls_are_a_regression(void **state)
{
    static const struct { int clear; double gap; enum td_verdict want; } CASES[] = {
        {12, 1.2, TD_REGRESSED},   {3, 1.2, TD_REGRESSED},    {2, 1.2, TD_INCONCLUSIVE},
        {12, 0.42, TD_INCONCLUSIVE}, /* as wide as an honest build's widest */
        {12, 0.95, TD_INCONCLUSIVE}, {0, 0.1, TD_INCONCLUSIVE},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct world *w = forks("{\"temperature\":0}", CASES[i].clear, CASES[i].gap);

        assert_int_equal(judge(w), CASES[i].want);
        assert_true(says(w, CASES[i].want == TD_REGRESSED ? "fork at a clear call, a gap over 1.00 nats"
                                                          : "what would decide: --build DIR"));
        stop(w);
    }
}

static void test_limits_are_the_policys(void **state)
{
    struct world *w = forks("{\"temperature\":0}", 5, 1.2);

    (void)state;
    w->policy.clear_share = 0.5;
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    stop(w);
    w = forks("{\"temperature\":0}", 5, 1.2);
    w->policy.clear_gap = 1.5;
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    stop(w);
}

/* Let both sides agree on the likeliest token at the fork: the candidate chose another by lot. */
static void agree_at_forks(struct world *w, double gap)
{
    int p;

    for (p = 0; p < N_PROMPTS; p++) {
        struct td_exchange *x = &w->xs[TD_NEW][p];

        x->logprobs[3] = x->top[3 * K].logprob = (float)(-0.2 - gap);
        x->top[3 * K + 1].logprob = -0.2f;
    }
}

/* Tokens that were drawn by lot part at any gap, and a request that names no temperature may have
 * been. */
static void test_sampled_answers_prove_nothing(void **state)
{
    static const char *const REQUESTS[] = {"{\"temperature\":0.8}", "{}",
                                           "{\"sampling_params\":{\"temperature\":1}}"};
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct world *w = forks(REQUESTS[i], 12, 3);

        agree_at_forks(w, 3);
        assert_int_equal(judge(w), TD_INCONCLUSIVE);
        stop(w);
    }
    struct world *w = forks("{\"sampling_params\":{\"temperature\":0}}", 12, 3);

    agree_at_forks(w, 3);
    assert_int_equal(judge(w), TD_REGRESSED);
    stop(w);
}

/* An honest build that forks as clearly, or a baseline that wavers so itself, excuses clear forks. */
static void test_noise_with_clear_forks_excuses_them(void **state)
{
    enum td_role roles[] = {TD_CALIBRATE, TD_BASE, TD_LIVE};
    size_t i;
    int p;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct world *w = forks("{\"temperature\":0}", 6, 1.2);

        for (p = 0; p < N_PROMPTS; p++)
            add(w, roles[i], p, 7, (struct like){p < 5 ? 1 : -1, p < 6 ? 1.2 : 0.1, -0.2});
        if (roles[i] == TD_BASE) /* the first answer is the one that is compared with the others */
            for (p = 0; p < N_PROMPTS; p++)
                w->xs[TD_BASE][2 * N_PROMPTS + p].repeat = -1;
        if (judge(w) == TD_REGRESSED)
            fail_msg("%s: %s", td_role_key(roles[i]), w->lane.notes[0].text);
        assert_int_equal(w->found.damage.noise.clear, 5);
        stop(w);
    }
}

/* All prompts fork at close calls. In equal contexts the logprobs are `shift` nats apart; the
 * calibration's, if there is one, `noise` nats. */
static struct world *shifted(double shift, double noise)
{
    struct world *w = start_world("{\"temperature\":0}");
    int p;

    for (p = 0; p < N_PROMPTS; p++) {
        add(w, TD_BASE, p, 0, (struct like){-1, 0.05, -0.2});
        add(w, TD_NEW, p, 0, (struct like){4, 0.05, -0.2 - shift});
        if (noise > 0)
            add(w, TD_CALIBRATE, p, 0, (struct like){5, 0.05, -0.2 - noise});
    }
    return w;
}

static void test_logprobs_far_apart_are_a_regression(void **state)
{
    static const struct { double shift, noise; bool regressed; } CASES[] = {
        {0.3, 0, true},   {0.04, 0, false}, /* as honest builds of real servers */
        {0.12, 0, false}, {0.3, 0.03, true}, {0.3, 0.1, false}, /* four times the noise's */
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct world *w = shifted(CASES[i].shift, CASES[i].noise);
        bool regressed = judge(w) == TD_REGRESSED;

        assert_int_equal(regressed, CASES[i].regressed);
        assert_true(!regressed || says(w, "in equal contexts logprobs are 0.3"));
        stop(w);
    }
}

/* Equal texts are no proof: scaled logits choose the same tokens. */
static void test_equal_texts_with_logprobs_far_apart_are_a_regression(void **state)
{
    static const double SHIFTS[] = {0.3, 0.01};
    size_t i;
    int p;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct world *w = start_world("{\"temperature\":0}");

        for (p = 0; p < N_PROMPTS; p++) {
            add(w, TD_BASE, p, 0, (struct like){-1, 2, -0.2});
            add(w, TD_NEW, p, 0, (struct like){-1, 2, -0.2 - SHIFTS[i]});
        }
        assert_int_equal(judge(w), i == 0 ? TD_REGRESSED : TD_PASS);
        assert_true(i > 0 || says(w, "the texts of all"));
        stop(w);
    }
}

/* One wild place makes a mean, but no evidence. */
static void test_one_wild_place_is_not_evidence(void **state)
{
    struct world *w = shifted(0.001, 0);

    (void)state;
    w->xs[TD_NEW][0].logprobs[1] = -30;
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(w->found.damage.candidate.shift.mean > w->policy.shift_max);
    stop(w);
}

/* Behind a fork nothing can be compared, but how sure a server is of its own words can: gibberish is
 * a row of unlikely tokens. */
static void test_a_server_that_is_unsure_of_all_its_words(void **state)
{
    struct world *w = shifted(0.001, 0);
    int p, i;

    (void)state;
    for (p = 0; p < N_PROMPTS; p++)
        for (i = 5; i < LEN; i++)
            w->xs[TD_NEW][p].logprobs[i] = -3.5f;
    assert_int_equal(judge(w), TD_REGRESSED);
    assert_true(says(w, "its own tokens are less likely by 1.93 nats each"));
    stop(w);
    w = shifted(0.001, 0);
    for (i = 5; i < LEN; i++) /* one answer went another way */
        w->xs[TD_NEW][0].logprobs[i] = -3.5f;
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    stop(w);
}

/* Without logprobs nothing is known of gaps, and nothing is called damage. */
static void test_without_logprobs_nothing_is_called_damage(void **state)
{
    struct world *w = forks("{\"temperature\":0}", 12, 3);
    size_t i;
    int r;

    (void)state;
    for (r = 0; r < TD_N_ROLES; r++)
        for (i = 0; i < w->n[r]; i++) {
            free(w->xs[r][i].top);
            free(w->xs[r][i].logprobs);
            w->xs[r][i].top = NULL;
            w->xs[r][i].logprobs = NULL;
        }
    assert_int_equal(judge(w), TD_INCONCLUSIVE);
    assert_true(isnan(w->found.damage.candidate.shift.mean));
    stop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forks_at_clear_calls_are_a_regression),
        cmocka_unit_test(test_limits_are_the_policys),
        cmocka_unit_test(test_sampled_answers_prove_nothing),
        cmocka_unit_test(test_noise_with_clear_forks_excuses_them),
        cmocka_unit_test(test_logprobs_far_apart_are_a_regression),
        cmocka_unit_test(test_equal_texts_with_logprobs_far_apart_are_a_regression),
        cmocka_unit_test(test_one_wild_place_is_not_evidence),
        cmocka_unit_test(test_a_server_that_is_unsure_of_all_its_words),
        cmocka_unit_test(test_without_logprobs_nothing_is_called_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
