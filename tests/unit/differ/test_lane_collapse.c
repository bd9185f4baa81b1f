/* test_lane_collapse.c - which answers have collapsed, and whether more prompts end in loops than
 * the baseline's do.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/differ/small_world.h"

#define LEN 48
#define REQUEST "{\"max_tokens\":48}" /* as many as an answer has */

static const char *const PROMPTS[] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"};
#define N_PROMPTS 10

/* An answer whose tokens differ until `loop`, and then repeat with a period of 3; -1: no loop. */
static void add(struct world *w, enum td_role role, int prompt, int repeat, int loop)
{
    struct td_exchange *x = add_answer(w, role, PROMPTS[prompt], repeat, LEN, 0);
    int i;

    x->text = (char *)(uintptr_t) "a text that is long enough";
    x->text_len = strlen(x->text);
    x->usage = (struct td_usage){-1, -1};
    for (i = 0; i < LEN; i++)
        x->token_ids[i] = loop >= 0 && i >= loop ? 7 + i % 3 : 100 + i;
}

static enum td_verdict judge(struct world *w)
{
    struct td_error err = {0, ""};

    align_world(w);
    assert_int_equal(td_collapse_measure(&w->g, &w->policy, &w->collapses, &err), TD_OK);
    td_collapse_judge(&w->collapses, &w->lane);
    return w->lane.verdict;
}

/* The first `old` prompts of the baseline loop, and the prompts [from, to) of the candidate. */
static struct world *loops(int old, int from, int to)
{
    struct world *w = start_world(REQUEST);
    int p, r;

    for (p = 0; p < N_PROMPTS; p++)
        for (r = 0; r < 3; r++) {
            add(w, TD_BASE, p, r, p < old ? 9 : -1);
            add(w, TD_NEW, p, r, p >= from && p < to ? 6 : -1);
        }
    return w;
}

/* ", the answer, the answer" in 8 prompts of 10: no loop is long enough to be hard. */
static void test_many_short_loops_are_a_regression(void **state)
{
    struct world *w = loops(0, 0, 8);

    (void)state;
    assert_int_equal(judge(w), TD_REGRESSED);
    assert_int_equal(w->collapses.filled_new, 8);
    assert_int_equal(w->collapses.n, 24);
    assert_true(says(w, "8 of 10 prompts end in a loop"));
    stop(w);
}

/* A small model loops as well: what the baseline does is excused, whatever the others do. */
static void test_loops_of_the_baseline_are_excused(void **state)
{
    struct world *w = loops(10, 0, 10);

    (void)state;
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->collapses.filled_both, 10);
    assert_int_equal(w->collapses.n, 0);
    stop(w);
    w = loops(5, 0, 10); /* five more: p = 1/32 */
    assert_int_equal(judge(w), TD_PASS);
    assert_true(says(w, "5 of 10 prompts"));
    stop(w);
    w = loops(5, 5, 10); /* as many in others: an honest build that rounds in another way */
    assert_int_equal(judge(w), TD_PASS);
    assert_true(w->collapses.filled_new == 5 && w->collapses.filled_old == 5);
    stop(w);
}

/* One loop more is chance: no small model loops in the same prompts on every build. */
static void test_few_loops_are_chance(void **state)
{
    struct world *w = loops(0, 0, 6);

    (void)state;
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->collapses.n, 0);
    assert_true(says(w, "p=0.016"));
    stop(w);
    w = loops(0, 0, 7);
    assert_int_equal(judge(w), TD_REGRESSED);
    stop(w);
    w = loops(0, 0, 7);
    w->policy.collapse_alpha = 0.001;
    assert_int_equal(judge(w), TD_PASS);
    stop(w);
}

/* A prompt counts where most of its answers loop. */
static void test_one_looping_repeat_is_not_a_prompt(void **state)
{
    struct world *w = start_world(REQUEST);
    int p, r;

    (void)state;
    for (p = 0; p < N_PROMPTS; p++)
        for (r = 0; r < 3; r++) {
            add(w, TD_BASE, p, r, -1);
            add(w, TD_NEW, p, r, r == 0 ? 6 : -1);
        }
    assert_int_equal(judge(w), TD_PASS);
    assert_int_equal(w->collapses.filled_new, 0);
    stop(w);
}

/* Prompts that one side did not answer say nothing. */
static void test_unanswered_prompts_are_not_counted(void **state)
{
    struct world *w = start_world(REQUEST);
    int p;

    (void)state;
    for (p = 0; p < N_PROMPTS; p++)
        add(w, p < 3 ? TD_BASE : TD_NEW, p, 0, p < 3 ? -1 : 6);
    judge(w);
    assert_int_equal(w->collapses.prompts, 0);
    assert_int_equal(w->collapses.n, 0);
    stop(w);
}

static unsigned draw(unsigned long long *state, unsigned n)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (unsigned)((*state >> 11) % n);
}

/* A small model that loops in three prompts of ten. An unchanged build loops in the same ones and
 * never raises an alarm; an honest build that rounds in another way forks in seven prompts of ten,
 * loops there in as many, and raises one in less than one run of a hundred. */
static void test_honest_builds_raise_no_alarm(void **state)
{
    unsigned long long seed = 88172645463325252ULL;
    int run, p, unchanged = 0, honest = 0;

    (void)state;
    for (run = 0; run < 400; run++) {
        struct world *w = start_world(REQUEST);
        bool same = run % 2 == 0;

        for (p = 0; p < N_PROMPTS; p++) {
            int loop = draw(&seed, 10) < 3 ? 6 : -1;
            bool forks = !same && draw(&seed, 10) < 7;

            add(w, TD_BASE, p, 0, loop);
            add(w, TD_NEW, p, 0, !forks ? loop : draw(&seed, 10) < 3 ? 8 : -1);
        }
        if (judge(w) == TD_REGRESSED)
            same ? unchanged++ : honest++;
        stop(w);
    }
    assert_int_equal(unchanged, 0);
    assert_in_range(honest, 0, 2);
}

/* Ten prompts, three answers each: `old` and `now` are the ends of the recording's and the candidate's. */
static struct world *ends(const char *old, const char *now)
{
    struct world *w = loops(0, 0, 0);
    size_t i;

    for (i = 0; i < w->n[TD_BASE]; i++) {
        w->xs[TD_BASE][i].finish_reason = (char *)(uintptr_t)old;
        w->xs[TD_NEW][i].finish_reason = (char *)(uintptr_t)now;
    }
    return w;
}

/* No server comes to such an end soundly, also beside a recording that says nothing of ends. */
static void test_answers_that_came_to_no_end(void **state)
{
    static const struct { const char *old, *now; enum td_verdict verdict; } CASES[] = {
        {NULL, "abort", TD_REGRESSED}, {"stop", "Error", TD_REGRESSED}, {"", "timeout", TD_REGRESSED},
        {NULL, "stop", TD_PASS}, {"stop", NULL, TD_PASS}, {"length", "eos", TD_PASS}, {"abort", "length", TD_PASS},
        {"abort", "abort", TD_INCONCLUSIVE}, {"error", "abort", TD_INCONCLUSIVE},
    };
    struct world *w;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        w = ends(CASES[i].old, CASES[i].now);
        if (judge(w) != CASES[i].verdict || w->collapses.n != (CASES[i].verdict == TD_REGRESSED ? 30 : 0))
            fail_msg("case %zu: verdict %d, %zu found", i, (int)w->lane.verdict, w->collapses.n);
        stop(w);
    }
    w = ends(NULL, "stop"); /* one answer of thirty; the recording's end is that of another prompt */
    w->xs[TD_NEW][4].finish_reason = w->xs[TD_BASE][7].finish_reason = (char *)(uintptr_t) "abort";
    assert_int_equal(judge(w), TD_REGRESSED);
    assert_true(says(w, "1 of 30 answers collapsed beyond what the baseline does (first: it ends after 48 tokens, and says \"abort\")"));
    stop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_short_loops_are_a_regression),
        cmocka_unit_test(test_loops_of_the_baseline_are_excused),
        cmocka_unit_test(test_few_loops_are_chance),
        cmocka_unit_test(test_one_looping_repeat_is_not_a_prompt),
        cmocka_unit_test(test_unanswered_prompts_are_not_counted),
        cmocka_unit_test(test_answers_that_came_to_no_end),
        cmocka_unit_test(test_honest_builds_raise_no_alarm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
