/* test_fill_ids.c - lost token ids are filled in from a second answer when it agrees, and only then.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "wire/fill_ids.h"

struct got { struct td_exchange x[8]; size_t n; };

static int keep(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct got *g = arg;

    (void)err;
    assert_true(g->n < 8);
    g->x[g->n++] = *x;
    memset(x, 0, sizeof *x);
    return TD_OK;
}

static struct td_exchange answer(uint32_t stream, const char *text, const int32_t *ids, int32_t n, bool filler)
{
    struct td_exchange x = {.stream = stream, .prompt_id = strdup("p"), .category = strdup(""), .api = strdup("llamacpp"), .path = strdup("/completion"),
                            .text = strdup(text), .text_len = strlen(text), .n_tokens = n, .usage = {4, n}, .ids_complete = true,
                            .phase = filler ? TD_PHASE_WARMUP : TD_PHASE_TIMED};
    int32_t i;

    x.token_ids = malloc((size_t)n * sizeof *ids);
    memcpy(x.token_ids, ids, (size_t)n * sizeof *ids);
    for (i = 0; i < n; i++)
        x.ids_complete &= ids[i] >= 0;
    x.request = cJSON_Parse("{\"prompt\":\"x\",\"n_predict\":3,\"stream\":true,\"n_probs\":5}");
    if (filler)
        x.extra = cJSON_Parse("{\"role\":\"ids\"}");
    return x;
}

static const int32_t LOSSY[] = {-1, -1, 122}, WHOLE[] = {10813, 117, 122}, OTHER[] = {10813, 117, 251};

/* A lossy answer, then one filler; what came of the lossy one. */
static struct td_exchange after(const char *text, const int32_t *ids, int32_t n)
{
    struct got g = {.n = 0};
    struct td_fill_ids *w = td_fill_ids_new(keep, &g);
    struct td_exchange x = answer(1, "\xF0\x9F\xA7\xAC", LOSSY, 3, false), filler = answer(2, text, ids, n, true);

    assert_int_equal(td_fill_ids_add(w, &x, NULL), TD_OK);
    assert_int_equal(td_fill_ids_add(w, &filler, NULL), TD_OK);
    assert_int_equal(g.n, 0);
    assert_int_equal(td_fill_ids_end(w, NULL), TD_OK);
    td_fill_ids_free(w);
    assert_int_equal(g.n, 2);
    assert_int_equal(g.x[0].stream, 1);
    td_exchange_release(&g.x[1]);
    return g.x[0];
}

static void agreeing_ids_are_taken(void **state)
{
    struct td_exchange x = after("\xF0\x9F\xA7\xAC", WHOLE, 3);

    (void)state;
    assert_true(x.ids_complete);
    assert_memory_equal(x.token_ids, WHOLE, sizeof WHOLE);
    assert_int_equal(td_json_get_i64(x.extra, "ids_from", 0), 2);
    td_exchange_release(&x);
    x = after("\xF0\x9F\xA7\xAC\xEF\xBF\xBD", WHOLE, 3); /* unstreamed, an unfinished glyph stands there as U+FFFD */
    assert_true(x.ids_complete);
    td_exchange_release(&x);
}

static void others_are_not(void **state)
{
    static const int32_t longer[] = {10813, 117, 122, 5};
    struct td_exchange x[] = {after("\xF0\x9F\xA7\xAC", OTHER, 3), after("other", WHOLE, 3), after("\xF0\x9F\xA7\xAC", longer, 4),
                              after("\xF0\x9F\xA7\xAC", LOSSY, 3)};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof x / sizeof *x; i++) {
        assert_false(x[i].ids_complete);
        assert_int_equal(x[i].token_ids[0], -1);
        td_exchange_release(&x[i]);
    }
}

static void only_the_lossy_are_held(void **state)
{
    struct got g = {.n = 0};
    struct td_fill_ids *w = td_fill_ids_new(keep, &g);
    struct td_exchange whole = answer(1, "a", WHOLE, 3, false), twice[] = {answer(2, "a", LOSSY, 3, false), answer(3, "a", LOSSY, 3, false)};
    struct td_api_server server = {.kind = TD_API_LLAMACPP};
    struct td_plan plan = TD_PLAN_INIT;
    cJSON *body;
    size_t i;

    (void)state;
    td_fill_ids_add(w, &whole, NULL);
    assert_int_equal(g.n, 1);
    td_fill_ids_add(w, &twice[0], NULL);
    td_fill_ids_add(w, &twice[1], NULL);
    assert_int_equal(td_fill_ids_plan(w, &server, NULL, &plan, NULL), TD_OK);
    assert_int_equal(plan.n, 1); /* one request for the prompt, whatever its repeats */
    assert_string_equal(plan.items[0].role, TD_FILL_IDS_ROLE);
    assert_int_equal(plan.items[0].phase, TD_PHASE_WARMUP);
    body = cJSON_Parse(plan.items[0].body);
    assert_true(cJSON_IsFalse(td_json_get(body, "stream")));
    assert_int_equal(td_json_get_i64(body, "n_probs", 9), 0);
    assert_true(td_json_get_bool(body, "return_tokens", false));
    assert_int_equal(td_json_get_i64(body, "n_predict", 0), 3);
    cJSON_Delete(body);
    td_plan_release(&plan);
    td_fill_ids_end(w, NULL);
    td_fill_ids_free(w);
    assert_int_equal(g.n, 3);
    for (i = 0; i < g.n; i++)
        td_exchange_release(&g.x[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agreeing_ids_are_taken), cmocka_unit_test(others_are_not),
                                       cmocka_unit_test(only_the_lossy_are_held)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
