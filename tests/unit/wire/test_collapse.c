/* test_collapse.c - the rules of collapse on answers made for them, and the traps that must not fire.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "wire/collapse.h"

static int32_t ids[512];
static float lps[512];
static struct td_alt top[512 * 3];
static char honest[512 * 3];

/* An answer of n tokens, all different, with three bytes of text for each. */
static struct td_exchange fresh(int32_t n)
{
    int32_t i, j;

    for (i = 0; i < 3 * n; i++)
        honest[i] = "An honest answer. "[i % 18];
    for (i = 0; i < n; i++) {
        ids[i] = 100 + i;
        lps[i] = -0.5f;
        for (j = 0; j < 3; j++)
            top[i * 3 + j] = (struct td_alt){100 + i + j, -0.5f - (float)j};
    }
    return (struct td_exchange){.n_tokens = n, .token_ids = ids, .logprobs = lps, .top = top, .top_k = 3,
                                .usage = {1, n}, .text = honest, .text_len = (size_t)n * 3};
}

static void expect(const struct td_exchange *x, enum td_collapse_kind kind, bool hard, int32_t position)
{
    struct td_collapse c;

    td_collapse_check(x, NULL, &c);
    if (c.kind != kind || c.hard != hard || (kind && c.position != position))
        fail_msg("got %s hard=%d at %d (%s), expected %s hard=%d at %d", td_collapse_name(c.kind), c.hard, c.position, c.why,
                 td_collapse_name(kind), hard, position);
    assert_true(!kind || strlen(c.why) > 10);
}

static void healthy_answers_pass(void **state)
{
    struct td_exchange x = fresh(64), none = {.usage = {-1, -1}};

    (void)state;
    expect(&x, TD_COLLAPSE_NONE, false, 0);
    expect(&none, TD_COLLAPSE_NONE, false, 0);
    ids[3] = ids[4] = 0; /* "!!" in prose */
    expect(&x, TD_COLLAPSE_NONE, false, 0);
}

static void nan_logprobs(void **state)
{
    struct td_exchange x = fresh(20);

    (void)state;
    lps[7] = NAN;
    expect(&x, TD_COLLAPSE_NAN, true, 7);
    x = fresh(20);
    top[9 * 3 + 1].logprob = NAN;
    expect(&x, TD_COLLAPSE_NAN, false, 9);
    x = fresh(20);
    x.error = (char *)"HTTP 500: Out of range float values are not JSON compliant: nan";
    expect(&x, TD_COLLAPSE_NAN, true, 20);
    x.error = (char *)"HTTP 500: out of memory";
    expect(&x, TD_COLLAPSE_NONE, false, 0);
}

static void token_zero(void **state)
{
    struct td_exchange x = fresh(40);
    int i;

    (void)state;
    for (i = 32; i < 40; i++)
        ids[i] = 0;
    expect(&x, TD_COLLAPSE_TOKEN_ZERO, true, 32);
    ids[39] = 7; /* not at the end any more: 7 in a row are a warning */
    expect(&x, TD_COLLAPSE_TOKEN_ZERO, false, 32);
    x = fresh(40);
    for (i = 0; i < 40; i += 2)
        ids[i] = 0;
    expect(&x, TD_COLLAPSE_TOKEN_ZERO, true, 0);
}

static void token_run(void **state)
{
    struct td_exchange x = fresh(60);
    int i;

    (void)state;
    for (i = 28; i < 60; i++)
        ids[i] = 44;
    expect(&x, TD_COLLAPSE_TOKEN_RUN, true, 28);
    ids[28] = 1;
    expect(&x, TD_COLLAPSE_TOKEN_RUN, false, 29);
    ids[59] = 1;
    expect(&x, TD_COLLAPSE_NONE, false, 0);
}

static void loops(void **state)
{
    struct td_exchange x = fresh(128);
    struct td_collapse c;
    int i;

    (void)state;
    for (i = 60; i < 128; i++)
        ids[i] = 7 + i % 5;
    expect(&x, TD_COLLAPSE_LOOP, true, 60);
    td_collapse_check(&x, NULL, &c);
    assert_int_equal(c.period, 5);
    for (i = 60; i < 92; i++)
        ids[i] = 1000 + i;
    expect(&x, TD_COLLAPSE_LOOP, false, 92);
    ids[127] = 1; /* no longer at the end */
    expect(&x, TD_COLLAPSE_NONE, false, 0);
}

static void characters(void **state)
{
    static char text[200];
    struct td_exchange x = {.text = text, .usage = {-1, -1}};

    (void)state;
    memset(text, '!', 30);
    x.text_len = 30;
    expect(&x, TD_COLLAPSE_CHAR_RUN, true, 0);
    memcpy(text, "fine: ", 6);
    memset(text + 6, '!', 30);
    x.text_len = 36;
    expect(&x, TD_COLLAPSE_CHAR_RUN, true, 6);
    memset(text, '-', 60); /* a rule */
    x.text_len = 60;
    expect(&x, TD_COLLAPSE_CHAR_RUN, false, 0);
    x.text_len = 30;
    expect(&x, TD_COLLAPSE_NONE, false, 0);
    memset(text, '!', 30);
    x.request = cJSON_Parse("{\"prompt\":\"Continue: !!!!!!!!\"}");
    expect(&x, TD_COLLAPSE_CHAR_RUN, false, 0);
    cJSON_Delete(x.request);
}

static void empty_and_flat(void **state)
{
    struct td_exchange x = fresh(12);
    int i;

    (void)state;
    x.text_len = 0;
    expect(&x, TD_COLLAPSE_EMPTY, true, 0);
    x.text = (char *)" \n \n";
    x.text_len = 4;
    expect(&x, TD_COLLAPSE_EMPTY, false, 0);
    x = fresh(12);
    for (i = 0; i < 36; i++)
        top[i].logprob = -10;
    expect(&x, TD_COLLAPSE_FLAT, true, 0);
}

/* The answer is no hard collapse, and `filled` says whether it is filled. */
static void expect_filled(const struct td_exchange *x, bool filled)
{
    struct td_collapse c;

    td_collapse_check(x, NULL, &c);
    if (c.hard || c.filled != filled)
        fail_msg("hard=%d filled=%d (%s)", c.hard, c.filled, c.why);
    assert_true(!c.filled || (c.kind != TD_COLLAPSE_NONE && strlen(c.why) > 10));
}

/* ", the answer, the answer": 40 of the 50 tokens that were asked for are far from the 64 of a hard
 * loop. */
static void a_loop_fills_a_short_answer(void **state)
{
    struct td_exchange x = fresh(50);
    int i;

    (void)state;
    for (i = 10; i < 50; i++)
        ids[i] = 7 + i % 3;
    expect_filled(&x, false); /* of a length that nobody knows, it may be the beginning of a table */
    x.request = cJSON_Parse("{\"max_tokens\":50}");
    expect_filled(&x, true);
    for (i = 10; i < 30; i++)
        ids[i] = 1000 + i; /* the last 20 of 50 */
    expect_filled(&x, false);
    cJSON_Delete(x.request);
    x = fresh(50);
    for (i = 10; i < 50; i++)
        ids[i] = 7 + i % 13; /* three times, that is no loop yet */
    x.request = cJSON_Parse("{\"n_predict\":50}");
    expect_filled(&x, false);
    cJSON_Delete(x.request);
    x = fresh(64);
    for (i = 50; i < 64; i++)
        ids[i] = 7; /* a run of 14 */
    x.request = cJSON_Parse("{\"sampling_params\":{\"max_new_tokens\":48}}");
    expect_filled(&x, true);
    cJSON_Delete(x.request);
    x.request = cJSON_Parse("{\"sampling_params\":{\"max_new_tokens\":64}}");
    expect_filled(&x, false);
    cJSON_Delete(x.request);
}

/* The limits of long answers stay as they were. */
static void a_long_answer_is_filled_at_the_hard_limit(void **state)
{
    struct td_exchange x = fresh(128);
    struct td_collapse c;
    int i;

    (void)state;
    x.request = cJSON_Parse("{\"max_tokens\":512}");
    for (i = 65; i < 128; i++)
        ids[i] = 7 + i % 5;
    expect_filled(&x, false);
    for (i = 60; i < 128; i++)
        ids[i] = 7 + i % 5;
    td_collapse_check(&x, NULL, &c);
    assert_true(c.hard && c.filled);
    cJSON_Delete(x.request);
}

static void hardly_any_text_is_counted_against_tokens(void **state)
{
    struct td_exchange x = fresh(48);

    (void)state;
    x.text = (char *)"erc";
    x.text_len = 3;
    expect(&x, TD_COLLAPSE_EMPTY, false, 0);
    expect_filled(&x, true);
    x.text = (char *)"erc, and a word";
    x.text_len = 15;
    expect(&x, TD_COLLAPSE_NONE, false, 0); /* a visible byte in four tokens: bytes of rare letters */
    x = fresh(12);
    x.text = (char *)"ok";
    x.text_len = 2;
    expect_filled(&x, false); /* too short to tell */
    assert_int_equal(td_collapse_visible(" a\n b\t", 6), 2);
    assert_int_equal(td_collapse_visible(NULL, 0), 0);
    assert_int_equal(td_collapse_visible("a\xEF\xBF\xBD\xEF\xBF\xBD\x01" "b\xEF\xBF", 11), 4);
}

static void after_eos_nothing_counts(void **state)
{
    struct td_exchange x = fresh(80);
    int32_t eos = 2;
    struct td_collapse_options opt = {&eos, 1, false};
    struct td_collapse c;
    int i;

    (void)state;
    for (i = 20; i < 80; i++)
        ids[i] = 9;
    ids[19] = eos;
    x.request = cJSON_Parse("{\"ignore_eos\":true}");
    td_collapse_check(&x, &opt, &c);
    assert_int_equal(c.kind, TD_COLLAPSE_NONE);
    td_collapse_check(&x, NULL, &c);
    assert_int_equal(c.kind, TD_COLLAPSE_TOKEN_RUN);
    cJSON_Delete(x.request);
}

static void only_beyond_the_baseline(void **state)
{
    struct td_exchange x = fresh(128);
    struct td_collapse bad, base[2] = {{0}}, warning;
    char why[200];
    int i;

    (void)state;
    for (i = 60; i < 128; i++)
        ids[i] = 7 + i % 5;
    td_collapse_check(&x, NULL, &bad);
    assert_true(td_collapse_beyond(&bad, base, 2, why, sizeof why));
    assert_true(td_collapse_beyond(&bad, NULL, 0, NULL, 0));
    base[1] = bad; /* the small model loops in one repeat too */
    assert_false(td_collapse_beyond(&bad, base, 2, why, sizeof why));
    assert_non_null(strstr(why, "baseline"));
    for (i = 60; i < 128; i++)
        ids[i] = 44; /* a run instead of a loop: excused too */
    td_collapse_check(&x, NULL, &bad);
    assert_int_equal(bad.kind, TD_COLLAPSE_TOKEN_RUN);
    assert_false(td_collapse_beyond(&bad, base, 2, why, sizeof why));
    lps[3] = NAN; /* NaN is not */
    td_collapse_check(&x, NULL, &bad);
    assert_true(td_collapse_beyond(&bad, base, 2, why, sizeof why));
    warning = (struct td_collapse){.kind = TD_COLLAPSE_LOOP, .strength = 0.7};
    assert_false(td_collapse_beyond(&warning, base, 1, why, sizeof why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_answers_pass), cmocka_unit_test(nan_logprobs), cmocka_unit_test(token_zero),
        cmocka_unit_test(token_run), cmocka_unit_test(loops), cmocka_unit_test(characters), cmocka_unit_test(empty_and_flat),
        cmocka_unit_test(a_loop_fills_a_short_answer), cmocka_unit_test(a_long_answer_is_filled_at_the_hard_limit),
        cmocka_unit_test(hardly_any_text_is_counted_against_tokens),
        cmocka_unit_test(after_eos_nothing_counts), cmocka_unit_test(only_beyond_the_baseline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
