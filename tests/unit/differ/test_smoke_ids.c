/* test_smoke_ids.c - which token ids cannot be those of an answer, and which only look odd.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "differ/smoke_ids.h"

#define LEN 40
#define K 3

struct world {
    struct td_exchange x;
    int32_t ids[LEN];
    struct td_alt top[LEN * K];
    char *text[LEN];
    char what[200];
};

/* An answer whose ids repeat after ten tokens, each with its text, and the likeliest of its place. */
static void sound(struct world *w)
{
    static const char *const TEXTS[10] = {" a", "b", " the", "c", "d", "e", "f", "g", "h", "i"};
    int i;

    memset(w, 0, sizeof *w);
    w->x = (struct td_exchange){.phase = TD_PHASE_TIMED, .n_tokens = LEN, .token_ids = w->ids,
                                .top = w->top, .top_k = K, .token_text = w->text,
                                .request = cJSON_Parse("{\"temperature\":0}")};
    for (i = 0; i < LEN; i++) {
        w->ids[i] = 100 + i % 10;
        w->text[i] = (char *)(uintptr_t)TEXTS[i % 10];
        w->top[i * K] = (struct td_alt){w->ids[i], -0.5f};
        w->top[i * K + 1] = (struct td_alt){300 + i, -1};
        w->top[i * K + 2] = (struct td_alt){-1, -1.0f / 0.0f}; /* padding */
    }
}

static bool is_wrong(struct world *w, int64_t vocab, const char *words)
{
    const struct td_exchange *x = td_smoke_wrong_ids(&w->x, 1, vocab, w->what, sizeof w->what);

    if (x && words && !strstr(w->what, words))
        fail_msg("%s", w->what);
    cJSON_Delete(w->x.request);
    return x != NULL;
}

static void test_impossible_ids(void **state)
{
    static const struct { int32_t id; int64_t vocab; bool wrong; } CASES[] = {
        {-1, 0, false}, {-2, 0, true}, {INT32_MIN, 0, true}, {INT32_MAX, 0, true}, {INT32_MAX - 1, 0, false},
        {-1, 200, false}, {199, 200, false}, {200, 200, true}, {0, 0, false}};
    struct world w;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        sound(&w);
        w.ids[LEN - 1] = CASES[i].id;
        assert_int_equal(is_wrong(&w, CASES[i].vocab, CASES[i].id == 200 ? "the model has 200 tokens" : "no token has"), CASES[i].wrong);
    }
}

/* The server lists the likeliest tokens of each place by their ids, and answers with others. */
static void test_ids_that_are_not_listed(void **state)
{
    struct world w;
    int i;

    (void)state;
    sound(&w);
    for (i = 0; i < LEN; i++)
        w.ids[i] = w.ids[i] * 7919 % 50000;
    assert_true(is_wrong(&w, 0, "40 of 40 token ids are not among the likeliest"));
    sound(&w);
    for (i = 0; i < LEN / 2 - 1; i++) /* less than half */
        w.ids[i] += 1000;
    assert_false(is_wrong(&w, 0, NULL));
    sound(&w);
    for (i = 0; i < LEN; i++) { /* the list has no ids */
        w.ids[i] += 1000;
        w.top[i * K].id = w.top[i * K + 1].id = -1;
    }
    assert_false(is_wrong(&w, 0, NULL));
    sound(&w);
    for (i = 0; i < LEN; i++)
        w.ids[i] += 1000;
    cJSON_Delete(w.x.request);
    w.x.request = cJSON_Parse("{\"temperature\":1}"); /* a sampled token need not be likely */
    assert_false(is_wrong(&w, 0, NULL));
    sound(&w);
    for (i = 0; i < LEN; i++)
        w.ids[i] = -1; /* the server did not show them */
    assert_false(is_wrong(&w, 0, NULL));
}

static void test_one_id_with_two_texts(void **state)
{
    struct world w;
    int i;

    (void)state;
    sound(&w);
    for (i = 10; i < LEN; i++)
        w.text[i] = (char *)(uintptr_t)(i % 3 ? "other" : "another");
    assert_true(is_wrong(&w, 0, "30 of 30 tokens have another text"));
    sound(&w);
    for (i = 20; i < 34; i++) /* less than half of the 30 that repeat an id */
        w.text[i] = (char *)(uintptr_t) "other";
    assert_false(is_wrong(&w, 0, NULL));
}

/* Blanks come and go at the beginning of a text, and bytes of a glyph are shown together or not at all. */
static void test_texts_that_differ_and_are_sound(void **state)
{
    static const char *const TEXTS[] = {"", "\xEF\xBF\xBD", "\xF0\x9F\xA7\xAC", "\xC3\xA4", "   ", "\xEF\xBF\xBD\x61"};
    struct world w;
    int i;

    (void)state;
    sound(&w);
    for (i = 10; i < LEN; i++)
        w.text[i] = (char *)(uintptr_t)TEXTS[i % 6];
    assert_false(is_wrong(&w, 0, NULL));
    sound(&w);
    for (i = 0; i < LEN; i++) {
        w.ids[i] = w.top[i * K].id = 5;
        w.text[i] = (char *)(uintptr_t)(i % 2 ? " the" : "the");
    }
    assert_false(is_wrong(&w, 0, NULL));
}

static void test_what_is_left_out(void **state)
{
    struct world w;

    (void)state;
    sound(&w);
    w.ids[0] = -7;
    w.x.phase = TD_PHASE_WARMUP;
    assert_false(is_wrong(&w, 0, NULL));
    sound(&w);
    w.ids[0] = -7;
    w.x.error = (char *)(uintptr_t) "HTTP 500";
    assert_false(is_wrong(&w, 0, NULL));
    sound(&w);
    w.x.token_ids = NULL;
    assert_false(is_wrong(&w, 50, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_impossible_ids),
        cmocka_unit_test(test_ids_that_are_not_listed),
        cmocka_unit_test(test_one_id_with_two_texts),
        cmocka_unit_test(test_texts_that_differ_and_are_sound),
        cmocka_unit_test(test_what_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
