/* test_same_tokens.c - what is made of the same tokens: which differences count, and which sound
 * servers have, too.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "differ/same_tokens.h"

#define FFFD "\xEF\xBF\xBD"

#define N 40

static int32_t ids[] = {5, 6, 7};

static struct td_exchange answer(const char *text, const char *end)
{
    return (struct td_exchange){.prompt_id = (char[]){"p"},
                                .token_ids = ids,
                                .n_tokens = 3,
                                .ids_complete = true,
                                .text = (char *)(uintptr_t)text,
                                .text_len = text ? strlen(text) : 0,
                                .finish_reason = (char *)(uintptr_t)end};
}

static enum td_unlike compare(const char *old, const char *now, const char *request)
{
    struct td_exchange a = answer(old, "stop"), b = answer(now, "stop");
    enum td_unlike u;

    a.request = b.request = request ? cJSON_Parse(request) : NULL;
    u = td_same_tokens_compare(&a, &b);
    cJSON_Delete(a.request);
    return u;
}

static void test_another_text_is_named(void **state)
{
    (void)state;
    assert_int_equal(compare("a cat", "a dog", NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a cat", "a cat sat", NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a cat", "", NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a cat", NULL, NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a cat", "a\xC4\xA0"
                                      "cat", NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a cat", "a \xEF\xBF\xBD", NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a cat", "", "{\"stop\":[\"x\"]}"), TD_OTHER_TEXT);
}

static void test_what_sound_servers_do_is_alike(void **state)
{
    (void)state;
    assert_int_equal(compare("a cat", "a cat", NULL), TD_ALIKE);
    assert_int_equal(compare(" a cat", "a cat", NULL), TD_ALIKE);
    assert_int_equal(compare("a \xF0\x9F\xA7", "a ", NULL), TD_ALIKE);         /* a cut glyph: kept */
    assert_int_equal(compare("a \xEF\xBF\xBD", "a \xF0\x9F", NULL), TD_ALIKE); /* ... or replaced */
    assert_int_equal(compare("a", "a" FFFD FFFD FFFD, NULL), TD_ALIKE);   /* byte by byte */
    assert_int_equal(compare("a", "a" FFFD FFFD FFFD FFFD, NULL), TD_OTHER_TEXT); /* no cut glyph */
    assert_int_equal(compare("a" FFFD FFFD FFFD FFFD, "a", NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a\xF0\x9F\x98", "a" FFFD FFFD FFFD FFFD FFFD FFFD FFFD, NULL), TD_OTHER_TEXT);
    assert_int_equal(compare("a" FFFD FFFD FFFD FFFD FFFD, "a" FFFD FFFD FFFD FFFD FFFD FFFD, NULL),
                     TD_ALIKE); /* both wrote bytes that are no text, and one held the last back */
    assert_int_equal(compare("caf\xC3\xA9", "caf\xC3\xA9", NULL), TD_ALIKE);
    assert_int_equal(compare("caf\xC3\xA9", "caf", NULL), TD_OTHER_TEXT);      /* a whole one */
    assert_int_equal(compare("a cat", "a cat\n\n", "{\"stop\":[\"\\n\\n\"]}"), TD_ALIKE);
    assert_int_equal(compare("a cat", "a cat###", "{\"sampling_params\":{\"stop\":\"###\"}}"),
                     TD_ALIKE);
    assert_int_equal(compare("a cat", "a cat###", "{\"stop\":[]}"), TD_OTHER_TEXT);
}

static void test_another_end_is_named_and_none_is_not(void **state)
{
    struct td_exchange a = answer("x", "length"), b = answer("x", "stop"), c = answer("x", NULL);

    (void)state;
    assert_int_equal(td_same_tokens_compare(&a, &b), TD_OTHER_END);
    assert_int_equal(td_same_tokens_compare(&a, &c), TD_ALIKE); /* absent, and counted as such */
    b.finish_reason = a.finish_reason;
    b.extra = cJSON_Parse("{\"tool_calls\":3}");
    assert_int_equal(td_same_tokens_compare(&a, &b), TD_OTHER_PARTS);
    cJSON_Delete(b.extra);
}

/* Answers to one prompt: of the baseline `old` of N have another text, of the candidate `now`. */
static struct td_same_tokens measure(int old, int now, bool masked)
{
    struct td_exchange xs[2][N];
    struct td_side sides[2] = {{.role = TD_BASE, .xs = xs[0], .n_xs = N, .no_text = masked},
                               {.role = TD_NEW, .xs = xs[1], .n_xs = N, .no_text = masked}};
    static char name[N][4];
    struct td_policy policy;
    struct td_groups g;
    struct td_same_tokens s;
    struct td_error err = {0};
    int i;

    for (i = 0; i < N; i++) {
        name[i][0] = 'p', name[i][1] = (char)('a' + i / 2 / 20), name[i][2] = (char)('a' + i / 2 % 20);
        xs[0][i] = answer(i % 2 && i / 2 < old ? "other" : "text", "stop");
        xs[1][i] = answer(i < now ? "new" : "text", "stop");
        xs[0][i].prompt_id = xs[1][i].prompt_id = name[i];
        xs[0][i].repeat = xs[1][i].repeat = i % 2;
    }
    td_policy_default(&policy);
    assert_int_equal(td_align_exchanges(sides, 2, &g, &err), TD_OK);
    assert_int_equal(td_same_tokens_measure(&g, &policy, &s, &err), TD_OK);
    td_groups_release(&g);
    return s;
}

static void test_noise_excuses_as_much_as_it_does(void **state)
{
    static const struct { int old, now; bool masked, found; } CASES[] = {
        {0, 0, false, false}, {0, 1, false, true},  {0, N, false, true}, {20, N, false, false},
        {2, 4, false, false}, {2, N, false, true},  {0, N, true, false},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct td_same_tokens s = measure(CASES[i].old, CASES[i].now, CASES[i].masked);

        if (td_same_tokens_found(&s) != CASES[i].found)
            fail_msg("case %zu", i);
        assert_int_equal(s.n, CASES[i].masked ? 0 : CASES[i].now);
        td_same_tokens_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_text_is_named),
        cmocka_unit_test(test_what_sound_servers_do_is_alike),
        cmocka_unit_test(test_another_end_is_named_and_none_is_not),
        cmocka_unit_test(test_noise_excuses_as_much_as_it_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
