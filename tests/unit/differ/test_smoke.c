/* test_smoke.c - what a smoke test calls trouble, and what sound servers may do.
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

#include "common/json.h"
#include "differ/smoke.h"

#define LEN 96
#define K 3
#define MAX_X 16

static const char *const PROMPTS[] = {"short", "long", "creative", "technical", "again"};
static char text[LEN * 4 + 1];

struct world { struct td_exchange xs[MAX_X]; size_t n; struct td_smoke s; };

/* An answer to a prompt of its own, all tokens different, logprob -0.6, second best 0.5 below. */
static struct td_exchange *add(struct world *w, const char *id, const char *prompt)
{
    struct td_exchange *x = &w->xs[w->n++];
    char request[200];
    int i;

    assert_true(w->n <= MAX_X);
    for (i = 0; i < LEN * 4; i++)
        text[i] = "an honest word "[i % 15];
    snprintf(request, sizeof request,
             "{\"prompt\":\"%s\",\"max_tokens\":%d,\"temperature\":0,\"cache_salt\":\"td-%zu\"}",
             prompt, LEN, w->n);
    x->prompt_id = (char *)(uintptr_t)id;
    x->request = cJSON_Parse(request);
    x->n_tokens = LEN;
    x->ids_complete = true;
    x->usage = (struct td_usage){-1, -1};
    x->token_ids = calloc(LEN, sizeof *x->token_ids);
    x->logprobs = calloc(LEN, sizeof *x->logprobs);
    x->top = calloc(LEN * K, sizeof *x->top);
    x->top_k = K;
    x->text = text;
    x->text_len = LEN * 4;
    for (i = 0; i < LEN; i++) {
        x->token_ids[i] = 100 + i;
        x->logprobs[i] = -0.6f;
        x->top[i * K] = (struct td_alt){100 + i, -0.6f};
        x->top[i * K + 1] = (struct td_alt){500 + i, -1.1f};
        x->top[i * K + 2] = (struct td_alt){900, -4.0f};
    }
    return x;
}

/* Four prompts and one of them again, as in the suite. */
static struct world *sound(void)
{
    struct world *w = calloc(1, sizeof *w);
    int i;

    assert_non_null(w);
    for (i = 0; i < 5; i++)
        add(w, PROMPTS[i], i == 4 ? "creative" : PROMPTS[i]);
    return w;
}

static enum td_verdict check(struct world *w)
{
    td_smoke_check(w->xs, w->n, 0, &w->s);
    return w->s.verdict;
}

static void expect(struct world *w, const char *trouble)
{
    struct td_buf line = TD_BUF_INIT(4096);

    check(w);
    td_smoke_line(&w->s, "m", &line);
    if ((w->s.verdict == TD_PASS) != (trouble == NULL) ||
        (trouble && !strstr(td_buf_str(&line), trouble)))
        fail_msg("%s", td_buf_str(&line));
    td_buf_release(&line);
}

static void stop(struct world *w)
{
    size_t i;

    for (i = 0; i < w->n; i++) {
        free(w->xs[i].token_ids);
        free(w->xs[i].logprobs);
        free(w->xs[i].top);
        free(w->xs[i].prompt_ids);
        free(w->xs[i].scores);
        cJSON_Delete(w->xs[i].request);
        cJSON_Delete(w->xs[i].extra);
    }
    free(w);
}

/* From token `from` on, tokens first, first + 1 ... with this period. */
static void loop(struct td_exchange *x, int from, int first, int period)
{
    int i;

    for (i = from; i < LEN; i++)
        x->token_ids[i] = first + i % period;
}

static void test_a_sound_server_is_ok(void **state)
{
    struct world *w = sound();

    (void)state;
    expect(w, NULL);
    assert_true(w->s.prompts == 4 && w->s.ok == 4); /* the prompt that is asked again is no new one */
    stop(w);
}

/* A server that stops early and calls it the length; one that ends an answer itself may be brief. */
static void test_an_answer_is_as_long_as_it_says(void **state)
{
    static const struct { const char *reason; int tokens; bool ok; } CASES[] = {
        {"length", 1, false}, {"length", LEN / 2 - 1, false}, {"length", LEN / 2, true},
        {"length", LEN, true}, {"stop", 1, true}, {NULL, 1, true},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct world *w = sound();

        w->xs[1].n_tokens = CASES[i].tokens;
        w->xs[1].finish_reason = (char *)(uintptr_t)CASES[i].reason;
        expect(w, CASES[i].ok ? NULL : "and says \"length\"");
        stop(w);
    }
}

/* A 135M model loops in one or two of four prompts. A server that loops in all of them, or says the
 * same everywhere, is no sound one. */
static void test_loops_are_counted_over_prompts(void **state)
{
    struct world *w = sound();
    int i;

    (void)state;
    for (i = 0; i < 2; i++)
        loop(&w->xs[i], 15, 1000 * i, 6);
    expect(w, NULL);
    assert_int_equal(w->s.filled, 2);
    loop(&w->xs[2], 20, 3000, 7);
    expect(w, NULL);
    loop(&w->xs[3], 20, 4000, 8);
    expect(w, "all 4 prompts end in a loop");
    stop(w);
    w = sound();
    for (i = 0; i < 3; i++) /* ", the answer, the answer", wherever it was cut */
        loop(&w->xs[i], 10 + i, 7, 3);
    expect(w, "3 of 4 prompts end in the same loop");
    stop(w);
}

static void test_text_is_counted_against_tokens(void **state)
{
    struct world *w = sound();
    size_t i;

    (void)state;
    for (i = 0; i < w->n; i++) {
        w->xs[i].text = (char *)(uintptr_t)(i % 2 ? "erc" : "erc  \n\n  bian");
        w->xs[i].text_len = strlen(w->xs[i].text);
    }
    expect(w, "480 tokens and only 27 visible bytes");
    for (i = 0; i < w->n; i++)
        w->xs[i].n_tokens = 3;
    expect(w, NULL); /* a server that stops after three tokens is short, not mute */
    stop(w);
}

static void test_a_server_that_is_unsure_of_all_its_words(void **state)
{
    struct world *w = sound();
    size_t i;
    int k;

    (void)state;
    for (k = 0; k < LEN; k++)
        w->xs[0].logprobs[k] = -4; /* one answer: a hard prompt */
    expect(w, NULL);
    for (i = 0; i < w->n; i++)
        for (k = 0; k < LEN; k++)
            w->xs[i].logprobs[k] = -1.8f;
    expect(w, "unsure of what it writes: mean logprob -1.80");
    stop(w);
}

/* The answer to the repeated prompt parts at token 5, where the second best token was `gap` below. */
static struct world *repeated(double gap)
{
    struct world *w = sound();
    int i;

    for (i = 5; i < LEN; i++)
        w->xs[4].token_ids[i] = 500 + i;
    w->xs[2].top[5 * K + 1].logprob = (float)(-0.6 - gap);
    return w;
}

static void test_a_repeated_prompt_gets_the_same_answer(void **state)
{
    struct world *w = repeated(2);

    (void)state;
    expect(w, "the same prompt got another answer at token 5, which is no close call: gap 2 nats");
    stop(w);
    w = repeated(0.01); /* a sound server that adds in any order */
    expect(w, NULL);
    assert_float_equal(w->s.repeat_gap, 0.01, 1e-6);
    stop(w);
    w = repeated(2);
    cJSON_ReplaceItemInObject(w->xs[4].request, "max_tokens", cJSON_CreateNumber(7));
    expect(w, NULL); /* another request */
    assert_true(w->s.prompts == 5 && w->s.repeat_gap == 0);
    stop(w);
    w = repeated(2);
    cJSON_ReplaceItemInObject(w->xs[2].request, "temperature", cJSON_CreateNumber(1));
    cJSON_ReplaceItemInObject(w->xs[4].request, "temperature", cJSON_CreateNumber(1));
    expect(w, NULL); /* drawn by lot */
    stop(w);
    w = repeated(2);
    free(w->xs[2].top);
    w->xs[2].top = NULL;
    expect(w, NULL);
    assert_true(isnan(w->s.repeat_gap));
    stop(w);
}

/* Have the first answer scored, each token `apart` nats from what was said. */
static struct world *scored(double apart)
{
    struct world *w = sound();
    struct td_exchange *q = &w->xs[w->n++];
    int i;

    *q = (struct td_exchange){.prompt_id = (char *)(uintptr_t)PROMPTS[0], .phase = TD_PHASE_WARMUP,
                              .n_prompt_ids = LEN + 4, .n_scores = LEN + 4, .scored_from = 4,
                              .extra = cJSON_Parse("{\"role\":\"scores\"}")};
    q->prompt_ids = calloc(LEN + 4, sizeof *q->prompt_ids);
    q->scores = calloc(LEN + 4, sizeof *q->scores);
    for (i = 0; i < LEN; i++) {
        q->prompt_ids[4 + i] = w->xs[0].token_ids[i];
        q->scores[4 + i] = (float)(-0.6 - apart);
    }
    return w;
}

static void test_reading_and_writing_agree(void **state)
{
    struct world *w = scored(0.05);

    (void)state;
    expect(w, NULL);
    assert_float_equal(w->s.said_apart, 0.05, 1e-6);
    stop(w);
    w = scored(1.3);
    expect(w, "the server contradicts itself");
    stop(w);
    w = scored(1.3);
    w->xs[5].prompt_ids[4] = 7; /* another text */
    expect(w, NULL);
    assert_true(isnan(w->s.said_apart));
    stop(w);
}

/* A server that says itself that it did not finish an answer, and one that ends it as servers do. */
static void test_an_answer_comes_to_an_end(void **state)
{
    static const struct { const char *reason; bool ok; } CASES[] = {
        {"abort", false}, {"error", false}, {"ABORT", false}, {"timeout", false}, {"cancelled", false},
        {"stop", true}, {"tool_calls", true}, {"eos_token", true}, {"content_filter", true}};
    char trouble[60];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct world *w = sound();

        w->xs[1].finish_reason = (char *)(uintptr_t)CASES[i].reason;
        snprintf(trouble, sizeof trouble, "and says \"%s\"", CASES[i].reason);
        expect(w, CASES[i].ok ? NULL : trouble);
        assert_int_equal(w->s.ok, CASES[i].ok ? 4 : 3);
        stop(w);
    }
}

static void test_a_server_that_fails_to_score(void **state)
{
    struct world *w = scored(0.05);
    struct td_exchange *q = &w->xs[5];

    (void)state;
    q->n_scores = 0;
    q->error = (char *)(uintptr_t) "HTTP 500";
    q->error_kind = (char *)(uintptr_t) "http";
    q->http_status = 500;
    expect(w, "1 of 1 requests to score answers failed, the first: HTTP 500");
    q->error = (char *)(uintptr_t) "HTTP 400"; /* not offered */
    q->http_status = 400;
    expect(w, NULL);
    stop(w);
}

/* A scoring that comes, and in which no token has a logprob. */
static void test_a_scoring_without_numbers(void **state)
{
    struct world *w = scored(0.05);
    int k;

    (void)state;
    for (k = 0; k < LEN + 4; k++)
        w->xs[5].scores[k] = NAN;
    expect(w, "1 of 1 requests to score answers failed, the first: the server reports NaN");
    w->xs[5].scores[3] = -1;
    expect(w, NULL);
    stop(w);
}

/* What stands for bytes that are no text is no text. */
static void test_text_of_replacements(void **state)
{
    static const char mark[] = "\xEF\xBF\xBD";
    struct world *w = sound();
    char broken[LEN * 3];
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof broken; i++)
        broken[i] = mark[i % 3];
    for (k = 0; k < w->n; k++) {
        w->xs[k].text = broken;
        w->xs[k].text_len = sizeof broken;
    }
    expect(w, "only 0 visible bytes");
    stop(w);
}

static void test_what_was_trouble_stays_trouble(void **state)
{
    struct world *w = sound();
    int i;

    (void)state;
    for (i = 40; i < LEN; i++)
        w->xs[1].token_ids[i] = 0;
    expect(w, "3/4 prompts, model m: long: token 0 56 times");
    stop(w);
    w = sound();
    w->xs[4].error = (char *)(uintptr_t) "HTTP 500";
    expect(w, "3/4 prompts, model m: again: HTTP 500");
    stop(w);
    w = sound();
    w->xs[0].n_tokens = 0;
    w->xs[0].text_len = 0;
    expect(w, "the answer is empty");
    stop(w);
    w = calloc(1, sizeof *w);
    assert_int_equal(check(w), TD_BROKEN);
    free(w);
}

/* Where this machine lacked memory, the server is not wrong; but another answer may be. */
static void test_what_is_not_the_servers(void **state)
{
    struct world *w = scored(0.05);

    (void)state;
    w->xs[5].n_scores = 0;
    w->xs[5].error = (char *)(uintptr_t) "out of memory";
    w->xs[5].error_kind = (char *)(uintptr_t)TD_ERROR_UNSEEN;
    assert_int_equal(check(w), TD_BROKEN);
    assert_string_equal(w->s.first + strlen(w->s.first) - 13, "out of memory");
    w->xs[1].error = w->xs[5].error;
    w->xs[1].error_kind = w->xs[5].error_kind;
    assert_int_equal(check(w), TD_BROKEN);
    w->xs[2].n_tokens = 0;
    w->xs[2].text_len = 0;
    assert_int_equal(check(w), TD_REGRESSED);
    stop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_server_is_ok),
        cmocka_unit_test(test_an_answer_is_as_long_as_it_says),
        cmocka_unit_test(test_loops_are_counted_over_prompts),
        cmocka_unit_test(test_text_is_counted_against_tokens),
        cmocka_unit_test(test_a_server_that_is_unsure_of_all_its_words),
        cmocka_unit_test(test_a_repeated_prompt_gets_the_same_answer),
        cmocka_unit_test(test_reading_and_writing_agree),
        cmocka_unit_test(test_an_answer_comes_to_an_end),
        cmocka_unit_test(test_a_server_that_fails_to_score),
        cmocka_unit_test(test_a_scoring_without_numbers),
        cmocka_unit_test(test_text_of_replacements),
        cmocka_unit_test(test_what_was_trouble_stays_trouble),
        cmocka_unit_test(test_what_is_not_the_servers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
