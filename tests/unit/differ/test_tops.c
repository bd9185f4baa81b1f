/* test_tops.c - sides without the rows of their alternatives say what sides with all rows say.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "differ/damage.h"
#include "differ/open_sides.h"
#include "differ/tokens.h"
#include "differ/tops.h"
#include "tests/unit/common/temp_root.h"
#include "wire/collapse.h"

enum { PROMPTS = 40, REPEATS = 3, TOKENS = 50, K = 3 };

/* An answer that leaves that of the other seeds at a token of its own. */
static void set_answer(struct td_exchange *x, int prompt, int seed)
{
    const int fork = (prompt * 7 + seed * 13) % (TOKENS + 20);
    int i, k;

    for (i = 0; i < x->n_tokens; i++) {
        x->token_ids[i] = i >= fork && seed ? 1000 + seed : 10 + i;
        x->logprobs[i] = -0.1f * (float)(i % 7 + seed);
        for (k = 0; k < K; k++)
            x->top[i * K + k] = (struct td_alt){k ? x->token_ids[i] + k * 990 : x->token_ids[i], x->logprobs[i] - 0.3f * (float)(k + i % 3)};
    }
    if (prompt % 10 == 3)
        x->top[5 * K + 1].logprob = NAN;
    if (prompt % 10 == 4)
        for (i = 0; i < x->n_tokens * K; i++)
            x->top[i].logprob = -1;
}

/* spelt: the ids are incomplete, and there is no token_text: answers are compared by their text */
static void write_fixture(const char *dir, int first_seed, bool spelt)
{
    int32_t ids[TOKENS];
    float logprobs[TOKENS];
    struct td_alt top[TOKENS * K];
    char id[20], text[40];
    struct td_exchange x = {.http_status = 200, .n_tokens = TOKENS, .token_ids = ids, .ids_complete = !spelt, .logprobs = logprobs, .top = top,
                            .top_k = K, .prompt_id = id, .text = text};
    struct td_writer *w;
    int p, r;

    assert_int_equal(td_writer_create(dir, NULL, &w, NULL), TD_OK);
    for (r = 0; r < REPEATS; r++)
        for (p = 0; p < PROMPTS; p++) {
            snprintf(id, sizeof id, "p%d", p);
            x.repeat = r;
            x.stream++;
            set_answer(&x, p, first_seed + r);
            x.text_len = (size_t)snprintf(text, sizeof text, "answer %d of %d", p % 3 ? first_seed + r : 0, p);
            assert_int_equal(td_writer_exchange(w, &x), TD_OK);
            if (p % 16 == 0)
                assert_int_equal(td_writer_commit(w, NULL), TD_OK); /* several frames */
        }
    assert_int_equal(td_writer_close(w, "complete", NULL), TD_OK);
}

static void check_tokens(const struct td_groups *thin, const struct td_groups *full)
{
    struct td_policy policy;
    struct td_tokens a, b;
    struct td_damage da, db;
    size_t i;

    td_policy_default(&policy);
    assert_int_equal(td_tokens_measure(thin, &policy, &a, NULL), TD_OK);
    assert_int_equal(td_tokens_measure(full, &policy, &b, NULL), TD_OK);
    assert_int_equal(a.n_forks, b.n_forks);
    assert_true(a.n_forks > PROMPTS);
    for (i = 0; i < a.n_forks; i++) {
        assert_memory_equal(&a.forks[i].gap, &b.forks[i].gap, sizeof a.forks[i].gap);
        assert_int_equal(a.forks[i].outside_top_k, b.forks[i].outside_top_k);
    }
    assert_memory_equal(&a.gap_noise, &b.gap_noise, sizeof a.gap_noise);
    td_damage_measure(thin, &policy, &a, &da);
    td_damage_measure(full, &policy, &b, &db);
    assert_memory_equal(&da, &db, sizeof da);
    td_tokens_release(&a);
    td_tokens_release(&b);
}

static void check_answers(const struct td_side *thin, const struct td_side *full)
{
    const struct td_collapse_options options = {0};
    struct td_collapse a, b;
    size_t i, left_out = 0;
    int32_t t;

    assert_int_equal(thin->n_xs, full->n_xs);
    for (i = 0; i < thin->n_xs; i++) {
        td_collapse_check(&thin->xs[i], &options, &a);
        td_collapse_check(&full->xs[i], &options, &b);
        assert_string_equal(a.why, b.why);
        assert_int_equal(a.fired, b.fired);
        assert_memory_equal(a.by_kind, b.by_kind, sizeof a.by_kind);
        for (t = 0; t < TOKENS; t++) {
            const struct td_alt *row = td_exchange_top_row(&thin->xs[i], t);

            left_out += !row;
            if (row)
                assert_memory_equal(row, td_exchange_top_row(&full->xs[i], t), K * sizeof *row);
        }
        assert_null(td_exchange_top_row(&thin->xs[i], TOKENS));
    }
    assert_true(left_out > thin->n_xs * TOKENS * 3 / 4);
}

static void compare_both_ways(bool spelt)
{
    struct td_side_place places[3] = {{at("base"), TD_BASE, 0}, {at("new"), TD_NEW, 0}, {at("honest"), TD_CALIBRATE, 0}};
    struct td_side thin[3], full[3];
    struct td_groups by_thin, by_full;
    int i;

    memset(thin, 0, sizeof thin);
    for (i = 0; i < 3; i++) {
        td_fs_remove_tree(places[i].dir, NULL);
        write_fixture(places[i].dir, i * 2, spelt);
        assert_int_equal(td_side_open(places[i].dir, places[i].role, 0, &full[i], NULL), TD_OK);
        assert_int_equal(td_fixture_exchanges(full[i].fx, &full[i].xs, &full[i].n_xs, NULL, NULL), TD_OK);
    }
    assert_int_equal(td_sides_open(places, 3, thin, NULL), TD_OK);
    assert_null(thin[1].xs[0].top);
    assert_int_equal(td_align_exchanges(thin, 3, &by_thin, NULL), TD_OK);
    assert_int_equal(td_align_exchanges(full, 3, &by_full, NULL), TD_OK);
    assert_int_equal(td_tops_fetch(thin, 3, &by_thin, NULL), TD_OK);
    check_tokens(&by_thin, &by_full);
    for (i = 0; i < 3; i++) {
        check_answers(&thin[i], &full[i]);
        td_side_close(&thin[i]);
        td_side_close(&full[i]);
    }
    td_groups_release(&by_thin);
    td_groups_release(&by_full);
}

static void test_forks_of_tokens(void **state)
{
    (void)state;
    compare_both_ways(false);
}

static void test_forks_of_text(void **state)
{
    (void)state;
    compare_both_ways(true);
}

/* The first failure is told in the order of the fixtures, whichever thread met it. */
static void test_order_of_failures(void **state)
{
    struct td_side_place places[3] = {{at("sound"), TD_BASE, 0}, {at("cut"), TD_NEW, 0}, {at("none"), TD_NEW, 1}};
    struct td_side sides[3];
    struct td_error err = {0};
    char path[300];
    int i;

    (void)state;
    memset(sides, 0, sizeof sides);
    write_fixture(places[0].dir, 0, false);
    write_fixture(places[1].dir, 0, false);
    snprintf(path, sizeof path, "%s/exchanges.jsonl.zst", places[1].dir);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(td_sides_open(places, 3, sides, &err), TD_ETRUNCATED);
    assert_non_null(strstr(err.msg, "/cut is damaged"));
    for (i = 0; i < 3; i++)
        td_side_close(&sides[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forks_of_tokens), cmocka_unit_test(test_forks_of_text),
                                       cmocka_unit_test(test_order_of_failures)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
