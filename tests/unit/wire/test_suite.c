/* test_suite.c - suites, plans, request bodies.
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
#include "wire/suite.h"

static const struct td_sampling GREEDY = TD_SAMPLING_DEFAULT;

static void lines_are_read(void **state)
{
    static const char in[] = "# a comment\n\n{\"id\":\"a\",\"category\":\"short\",\"prompt\":\"Hi\"}\r\n"
                             "{\"id\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":9,\"concurrency\":4}\n"
                             "{\"id\":\"c\",\"prompt_token_ids\":[1,2,3]}";
    struct td_suite s;
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_suite_parse(in, sizeof in - 1, "t", &s, &err), TD_OK);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.prompts[0].text, "Hi");
    assert_int_equal(s.prompts[0].concurrency, 1);
    assert_int_equal(s.prompts[1].max_tokens, 9);
    assert_string_equal(s.prompts[1].category, "");
    assert_int_equal(s.prompts[2].n_ids, 3);
    td_suite_release(&s);
}

static void mistakes_are_named_with_their_line(void **state)
{
    static const struct { const char *in, *words; } bad[] = {
        {"", "holds no prompts"},
        {"{\"id\":\"a\",\"prompt\":\"x\"}\n{oops\n", "line 2"},
        {"[1]", "no JSON object"},
        {"{\"prompt\":\"x\"}", "no \"id\""},
        {"{\"id\":\"a\"}", "needs one of"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"prompt_token_ids\":[1]}", "needs one of"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"maxtokens\":3}", "unknown member \"maxtokens\""},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"max_tokens\":0}", "max_tokens"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"concurrency\":5000}", "concurrency"},
        {"{\"id\":\"a\",\"prompt_token_ids\":[-1]}", "no token id"},
        {"{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"a\",\"prompt\":\"y\"}", "twice"},
        {"{\"id\":7,\"prompt\":\"x\"}", "\"id\""},
    };
    struct td_suite s;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct td_error err = {0};

        assert_true(td_suite_parse(bad[i].in, strlen(bad[i].in), "t", &s, &err) < 0);
        if (!strstr(err.msg, bad[i].words))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.msg, bad[i].words);
    }
}

/* Built-in suites: what a byte-level model with a context of 1024 needs, and both sides of 50 tokens. */
static void built_in_suites_hold_their_promises(void **state)
{
    static const struct { const char *name; size_t least; } suites[] = {{"quick", 8}, {"full", 24}};
    size_t i, j;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct td_error err = {0};
        struct td_suite s;
        size_t below = 0, above = 0, longest = 0;
        unsigned levels = 0;

        if (td_suite_load(suites[i].name, &s, &err))
            fail_msg("%s", err.msg);
        assert_true(s.n >= suites[i].least);
        for (j = 0; j < s.n; j++) {
            size_t n = strlen(s.prompts[j].text);

            below += n < 50;
            above += n > 50;
            longest = n > longest ? n : longest;
            levels |= 1u << s.prompts[j].concurrency;
            assert_true(n + 128 < 1024);
            assert_true(*s.prompts[j].category);
        }
        assert_true(below >= 2 && above >= 4 && longest >= 300);
        assert_true((levels & (1u << 1 | 1u << 2 | 1u << 6)) == (1u << 1 | 1u << 2 | 1u << 6));
        td_suite_release(&s);
    }
}

static void plan_groups_by_concurrency(void **state)
{
    static const char in[] = "{\"id\":\"a\",\"prompt\":\"x\",\"concurrency\":2}\n{\"id\":\"b\",\"prompt\":\"x\"}\n"
                             "{\"id\":\"c\",\"prompt\":\"x\",\"concurrency\":2}\n{\"id\":\"d\",\"prompt\":\"x\",\"concurrency\":2}\n";
    static const struct { const char *id; int group, repeat, concurrency; } want[] = {
        {"a", 0, 0, 2}, {"c", 0, 0, 2}, {"d", 1, 0, 2}, {"b", 2, 0, 1},
        {"a", 3, 1, 2}, {"c", 3, 1, 2}, {"d", 4, 1, 2}, {"b", 5, 1, 1},
        {"a", 6, 0, 3}, {"b", 6, 0, 3}, {"c", 6, 0, 3}, {"d", 7, 0, 3}};
    struct td_api_server server = {.kind = TD_API_VLLM, .model = "m"};
    struct td_suite_sending two = {.repeats = 2, .phase = TD_PHASE_TIMED}, three = {.repeats = 1, .concurrency = 3, .phase = TD_PHASE_TAPPED};
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    struct td_suite s;
    size_t i;

    (void)state;
    assert_int_equal(td_suite_parse(in, sizeof in - 1, "t", &s, &err), TD_OK);
    assert_int_equal(td_suite_plan(&s, &server, &GREEDY, &two, &plan, &err), TD_OK);
    assert_int_equal(td_suite_plan(&s, &server, &GREEDY, &three, &plan, &err), TD_OK);
    assert_int_equal(plan.n, 12);
    for (i = 0; i < plan.n; i++) {
        assert_string_equal(plan.items[i].prompt_id, want[i].id);
        assert_int_equal(plan.items[i].group, want[i].group);
        assert_int_equal(plan.items[i].repeat, want[i].repeat);
        assert_int_equal(plan.items[i].concurrency, want[i].concurrency);
    }
    assert_int_equal(plan.items[11].phase, TD_PHASE_TAPPED);
    td_plan_release(&plan);
    td_suite_release(&s);
}

/* Of the timed phase, a level above 1 is a closed loop; with a concurrency for all, so are all repeats, and what is added. */
static void timed_levels_are_closed_loops(void **state)
{
    static const char in[] = "{\"id\":\"a\",\"prompt\":\"x\",\"concurrency\":2}\n{\"id\":\"b\",\"prompt\":\"x\"}\n"
                             "{\"id\":\"c\",\"prompt\":\"x\",\"concurrency\":2}\n";
    static const int64_t want[] = {1, 1, 0, 2, 2, 0, /* tapped: */ 0, 0, 0, /* all at 2: */ 3, 3, 3, 3, 3, 3, 3, 3, 3};
    struct td_api_server server = {.kind = TD_API_VLLM, .model = "m"};
    struct td_suite_sending levels = {.repeats = 2, .phase = TD_PHASE_TIMED},
                            tapped = {.repeats = 1, .concurrency = 3, .phase = TD_PHASE_TAPPED},
                            all = {.repeats = 2, .concurrency = 2, .phase = TD_PHASE_TIMED}, more = all;
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    struct td_suite s;
    size_t i;

    (void)state;
    more.repeats = 1;
    assert_int_equal(td_suite_parse(in, sizeof in - 1, "t", &s, &err), TD_OK);
    assert_int_equal(td_suite_plan(&s, &server, &GREEDY, &levels, &plan, &err), TD_OK);
    assert_int_equal(td_suite_plan(&s, &server, &GREEDY, &tapped, &plan, &err), TD_OK);
    assert_int_equal(td_suite_plan(&s, &server, &GREEDY, &all, &plan, &err), TD_OK);
    assert_int_equal(td_suite_plan(&s, &server, &GREEDY, &more, &plan, &err), TD_OK);
    assert_int_equal(plan.n, sizeof want / sizeof *want);
    for (i = 0; i < plan.n; i++)
        assert_int_equal(plan.items[i].loop, want[i]);
    td_plan_release(&plan);
    td_suite_release(&s);
}

static struct td_exchange recorded(uint32_t stream, int64_t from, int64_t to, int32_t concurrency, cJSON *request)
{
    return (struct td_exchange){.stream = stream, .prompt_id = (char *)"p", .category = (char *)"", .api = (char *)"vllm",
                                .method = (char *)"POST", .path = (char *)"/v1/completions", .concurrency = concurrency,
                                .t_sent_ns = from, .t_end_ns = to, .request = request};
}

static void a_recording_becomes_a_plan(void **state)
{
    cJSON *r = cJSON_Parse("{\"prompt\":\"x\",\"temperature\":0}");
    struct td_exchange xs[] = {recorded(3, 5000, 9000, 1, r), recorded(1, 1000, 3000, 2, r), recorded(2, 1100, 2900, 2, r),
                               recorded(4, 9500, 9900, 1, NULL), recorded(5, 9600, 9900, 1, r)};
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    size_t skipped;

    (void)state;
    xs[4].phase = TD_PHASE_WARMUP;
    assert_int_equal(td_plan_from_exchanges(xs, 5, 1u << TD_PHASE_TIMED, 2, &plan, &skipped, &err), TD_OK);
    assert_int_equal(skipped, 1);
    assert_int_equal(plan.n, 3);
    assert_int_equal(plan.items[0].group, plan.items[1].group);
    assert_int_equal(plan.items[2].group, plan.items[1].group); /* recorded by others, each at its time: it waits for nothing */
    assert_int_equal(plan.items[0].at_ns, 0);
    assert_int_equal(plan.items[2].at_ns, 2000);
    assert_string_equal(plan.items[2].body, "{\"prompt\":\"x\",\"temperature\":0}");
    td_plan_release(&plan);
    assert_int_equal(td_plan_from_exchanges(xs, 5, 7, 0, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.n, 4);
    assert_int_equal(plan.items[1].at_ns, -1);
    assert_int_equal(plan.items[0].group, plan.items[1].group);
    assert_int_equal(plan.items[2].group, plan.items[1].group + 1);
    td_plan_release(&plan);
    cJSON_Delete(r);
}

/* Recorded from the wire: so many are in flight again as were at most, though each exchange says another number. */
static void what_others_sent_is_one_loop(void **state)
{
    static const struct { int64_t from, to; } AT[] = {{1000, 3000}, {1500, 3500}, {2000, 4000}, {3600, 5000}, {9000, 9500}};
    static const double SPEEDS[] = {TD_PLAN_AS_SENT, 0};
    cJSON *r = cJSON_Parse("{\"prompt\":\"x\"}"), *extra = cJSON_Parse("{\"connection\":7}");
    struct td_exchange xs[5];
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    size_t skipped, i, k;

    (void)state;
    for (i = 0; i < 5; i++) {
        xs[i] = recorded((uint32_t)i, AT[i].from, AT[i].to, i < 3 ? (int32_t)i + 1 : 1, r);
        xs[i].repeat = (int32_t)i % 2;
        xs[i].extra = extra;
    }
    for (k = 0; k < 2; k++) {
        assert_int_equal(td_plan_from_exchanges(xs, 5, 1u << TD_PHASE_TIMED, SPEEDS[k], &plan, &skipped, &err), TD_OK);
        assert_int_equal(plan.n, 5);
        for (i = 0; i < 5; i++) {
            assert_int_equal(plan.items[i].loop, 1);
            assert_int_equal(plan.items[i].concurrency, 3);
            assert_int_equal(plan.items[i].at_ns, -1);
        }
        td_plan_release(&plan);
    }
    assert_int_equal(td_plan_from_exchanges(xs, 5, 1u << TD_PHASE_TIMED, 1, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.items[4].loop, 0);
    assert_int_equal(plan.items[4].at_ns, 8000);
    td_plan_release(&plan);
    cJSON_Delete(extra);
    cJSON_Delete(r);
}

/* Recorded in two loops of two requests each, in groups of one and two: planned again as loops; at the recorded times a loop is
 * one group, in which nothing waits; a recording of an older version has groups alone. */
static void recorded_loops_are_planned_again(void **state)
{
    cJSON *r = cJSON_Parse("{\"prompt\":\"x\"}"),
          *extra[] = {cJSON_Parse("{\"group\":0,\"loop\":1}"), cJSON_Parse("{\"group\":1,\"loop\":1}"),
                      cJSON_Parse("{\"group\":2,\"loop\":3}"), cJSON_Parse("{\"group\":2,\"loop\":3}")};
    struct td_exchange xs[4];
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    size_t skipped, i;

    (void)state;
    for (i = 0; i < 4; i++) {
        xs[i] = recorded((uint32_t)i + 1, 1000 * (int64_t)i + 1000, 9000, 2, r);
        xs[i].extra = extra[i];
    }
    assert_int_equal(td_plan_from_exchanges(xs, 4, 1u << TD_PHASE_TIMED, TD_PLAN_AS_SENT, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.items[0].loop, 1);
    assert_int_equal(plan.items[1].loop, 1);
    assert_int_equal(plan.items[2].loop, 2);
    assert_int_equal(plan.items[3].loop, 2);
    td_plan_release(&plan);
    assert_int_equal(td_plan_from_exchanges(xs, 4, 1u << TD_PHASE_TIMED, 1, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.items[1].loop, 0);
    assert_int_equal(plan.items[1].group, plan.items[0].group);
    assert_int_equal(plan.items[2].group, plan.items[0].group + 1);
    td_plan_release(&plan);
    for (i = 0; i < 4; i++)
        xs[i].concurrency = 0; /* of none in flight, as nobody records it, nothing would ever be sent */
    assert_int_equal(td_plan_from_exchanges(xs, 4, 1u << TD_PHASE_TIMED, TD_PLAN_AS_SENT, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.items[0].loop, 0);
    td_plan_release(&plan);
    for (i = 0; i < 4; i++) {
        xs[i].concurrency = 2;
        cJSON_DeleteItemFromObjectCaseSensitive(extra[i], "loop");
    }
    assert_int_equal(td_plan_from_exchanges(xs, 4, 1u << TD_PHASE_TIMED, TD_PLAN_AS_SENT, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.items[0].loop, 0);
    assert_int_equal(plan.items[1].group, plan.items[0].group + 1);
    assert_int_equal(plan.items[3].group, plan.items[2].group);
    td_plan_release(&plan);
    for (i = 0; i < 4; i++)
        cJSON_Delete(extra[i]);
    cJSON_Delete(r);
}

/* Three repeats at a rate, two requests in flight at most. As soon as possible is a loop of two, over all repeats, in groups
 * of no more. */
static void what_was_due_has_a_bound(void **state)
{
    cJSON *r = cJSON_Parse("{\"prompt\":\"x\"}"), *due = cJSON_Parse("{\"group\":4,\"due_ns\":1000}");
    struct td_exchange xs[9];
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    size_t skipped, i;

    (void)state;
    for (i = 0; i < 9; i++) {
        xs[i] = recorded((uint32_t)i + 1, 1000 * (int64_t)i + 1000, 1000 * (int64_t)i + 3000, 0, r);
        xs[i].repeat = (int32_t)i / 3;
        xs[i].extra = due;
    }
    assert_int_equal(td_plan_from_exchanges(xs, 9, 1u << TD_PHASE_TIMED, 0, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.n, 9);
    for (i = 0; i < 9; i++) {
        assert_int_equal(plan.items[i].at_ns, -1);
        assert_int_equal(plan.items[i].loop, 1);
        assert_int_equal(plan.items[i].concurrency, 2);
        assert_int_equal(plan.items[i].group, plan.items[0].group + (int64_t)(i / 3 * 2 + i % 3 / 2));
    }
    td_plan_release(&plan);
    cJSON_Delete(r);
    cJSON_Delete(due);
}

/* Two repeats at a rate: the second one does not wait for the answers of the first. */
static void what_was_due_waits_for_nothing(void **state)
{
    cJSON *r = cJSON_Parse("{\"prompt\":\"x\"}"), *due = cJSON_Parse("{\"group\":4,\"due_ns\":1000}");
    struct td_exchange xs[] = {recorded(1, 1000, 9000, 0, r), recorded(2, 1100, 9000, 0, r)};
    struct td_plan plan = TD_PLAN_INIT;
    struct td_error err = {0};
    size_t skipped;

    (void)state;
    xs[1].repeat = 1;
    xs[0].extra = xs[1].extra = due;
    assert_int_equal(td_plan_from_exchanges(xs, 2, 1u << TD_PHASE_TIMED, TD_PLAN_AS_SENT, &plan, &skipped, &err), TD_OK);
    assert_int_equal(plan.items[1].at_ns, 100);
    assert_int_equal(plan.items[1].group, plan.items[0].group);
    td_plan_release(&plan);
    xs[1].t_sent_ns = INT64_MAX - 1;   /* nobody waits for 292 years */
    assert_int_equal(td_plan_from_exchanges(xs, 2, 1u << TD_PHASE_TIMED, TD_PLAN_AS_SENT, &plan, &skipped, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "the request of stream 2 was sent 106752 days after the first one"));
    td_plan_release(&plan);
    cJSON_Delete(due);
    cJSON_Delete(r);
}

static cJSON *body_of(enum td_api_kind kind, const struct td_prompt *p, const struct td_sampling *smp, const char **path)
{
    struct td_api_server server = {.kind = kind, .model = "m"};
    struct td_buf b = TD_BUF_INIT(1 << 20);
    struct td_error err = {0};
    cJSON *v;

    assert_int_equal(td_api_write_body(&server, p, smp, &b, path, &err), TD_OK);
    v = td_json_parse(td_buf_str(&b), b.len, &err);
    assert_non_null(v);
    td_buf_release(&b);
    return v;
}

static void bodies_spell_sampling_out(void **state)
{
    struct td_prompt text = {.id = (char *)"a", .text = (char *)"Hi \"x\"", .concurrency = 1}, chat = {.id = (char *)"b", .max_tokens = 5};
    struct td_sampling many = GREEDY;
    const char *path;
    cJSON *v = body_of(TD_API_VLLM, &text, &GREEDY, &path);

    (void)state;
    assert_string_equal(path, "/v1/completions");
    assert_string_equal(td_json_get_str(v, "prompt", ""), "Hi \"x\"");
    assert_true(td_json_get_num(v, "temperature", 9) == 0 && td_json_get_num(v, "top_p", 9) == 1);
    assert_true(td_json_get_bool(v, "return_token_ids", false) && td_json_get_bool(v, "return_tokens_as_token_ids", false));
    assert_int_equal(td_json_get_i64(v, "top_k", 9), -1);
    assert_true(td_json_get_bool(td_json_get(v, "stream_options"), "include_usage", false));
    cJSON_Delete(v);
    v = body_of(TD_API_LLAMACPP, &text, &GREEDY, &path);
    assert_string_equal(path, "/completion");
    assert_int_equal(td_json_get_i64(v, "n_predict", 0), 64);
    assert_false(td_json_get_bool(v, "cache_prompt", true));
    assert_int_equal(td_json_get_i64(v, "n_probs", 0), 5);
    cJSON_Delete(v);
    chat.messages = cJSON_Parse("[{\"role\":\"user\",\"content\":\"x\"}]");
    many.logprobs = 50;
    v = body_of(TD_API_OPENAI, &chat, &many, &path);
    assert_string_equal(path, "/v1/chat/completions");
    assert_int_equal(td_json_get_i64(v, "top_logprobs", 0), 20);
    assert_int_equal(td_json_get_i64(v, "max_tokens", 0), 5);
    assert_null(td_json_get(v, "top_k")); /* a strict server refuses what it does not know */
    assert_null(td_json_get(v, "cache_salt"));
    cJSON_Delete(v);
    cJSON_Delete(chat.messages);
}

static void native_bodies(void **state)
{
    int32_t ids[] = {5, 6};
    struct td_prompt text = {.id = (char *)"a", .text = (char *)"Hi", .concurrency = 1}, by_ids = {.id = (char *)"b", .ids = ids, .n_ids = 2};
    struct td_api_server server = {.kind = TD_API_VLLM, .model = "m", .generate = true};
    struct td_buf b = TD_BUF_INIT(1 << 20);
    const char *path;
    cJSON *v = body_of(TD_API_SGLANG, &text, &GREEDY, &path), *s = cJSON_GetObjectItem(v, "sampling_params");

    (void)state;
    assert_string_equal(path, "/generate");
    assert_string_equal(td_json_get_str(v, "text", ""), "Hi");
    assert_int_equal(td_json_get_i64(s, "max_new_tokens", 0), 64);
    assert_true(td_json_get_bool(v, "return_logprob", false));
    assert_int_equal(td_json_get_i64(v, "top_logprobs_num", 0), 5);
    assert_null(td_json_get(s, "seed")); /* unknown sampling parameters are an error there */
    cJSON_Delete(v);
    v = body_of(TD_API_SGLANG, &by_ids, &GREEDY, &path);
    assert_int_equal(cJSON_GetArraySize(td_json_get(v, "input_ids")), 2);
    cJSON_Delete(v);
    assert_int_equal(td_api_write_body(&server, &by_ids, &GREEDY, &b, &path, NULL), TD_OK);
    assert_string_equal(path, TD_API_GENERATE);
    v = cJSON_Parse(td_buf_str(&b));
    assert_int_equal(cJSON_GetArraySize(td_json_get(v, "token_ids")), 2);
    assert_int_equal(td_json_get_i64(td_json_get(v, "sampling_params"), "logprobs", 0), 5);
    cJSON_Delete(v);
    server.generate = false;
    td_buf_clear(&b);
    assert_int_equal(td_api_write_body(&server, &by_ids, &GREEDY, &b, &path, NULL), TD_OK);
    assert_string_equal(path, "/v1/completions");
    td_buf_release(&b);
}

static void refused_fields_are_left_out(void **state)
{
    struct td_api_server s = {.kind = TD_API_VLLM};
    struct td_exchange x = {.http_status = 400, .error_kind = (char *)"http", .error = (char *)"HTTP 400: Extra inputs: cache_salt"};
    static const char body[] = "{\"prompt\":\"x\",\"cache_salt\":\"td-0\",\"return_token_ids\":true}";
    struct td_buf b = TD_BUF_INIT(1 << 16);

    (void)state;
    assert_int_equal(td_api_strip_body(&s, body, sizeof body - 1, &b), 0);
    assert_true(td_api_note_refusal(&s, &x));
    assert_int_equal(s.without, 1u << TD_FIELD_SALT);
    assert_int_equal(td_api_strip_body(&s, body, sizeof body - 1, &b), 1);
    assert_string_equal(td_buf_str(&b), "{\"prompt\":\"x\",\"return_token_ids\":true}");
    x.error = (char *)"HTTP 400: bad request"; /* not said which: without all that is left */
    assert_true(td_api_note_refusal(&s, &x));
    assert_false(td_api_note_refusal(&s, &x));
    x.http_status = 500;
    s.without = 0;
    assert_false(td_api_note_refusal(&s, &x));
    td_buf_release(&b);
}

static void salts_are_renewed_in_place(void **state)
{
    char body[] = "{\"a\":1,\"cache_salt\":\"td-0000000000000000\",\"b\":\"cache_salt\"}", foreign[] = "{\"cache_salt\":\"mine\"}";
    size_t n = strlen(body);

    (void)state;
    assert_int_equal(td_api_renew_salt(body, n, 0x0123456789abcdefULL), 1);
    assert_string_equal(body, "{\"a\":1,\"cache_salt\":\"td-0123456789abcdef\",\"b\":\"cache_salt\"}");
    assert_int_equal(td_api_renew_salt(foreign, strlen(foreign), 1), 0);
    assert_int_equal(td_api_renew_salt(body, 30, 1), 0); /* cut off */
}

static void addresses(void **state)
{
    static const struct { const char *in, *out; } good[] = {
        {"localhost:8000", "http://localhost:8000"}, {"http://h:1/", "http://h:1"}, {"https://h/x/v1/", "https://h/x"},
        {"[::1]:8000", "http://[::1]:8000"}};
    static const char *const bad[] = {"", "http://", "/x", "a b", "ftp://x", "u:p@h:1"};
    char url[512];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        struct td_error err = {0};

        assert_int_equal(td_api_url(good[i].in, url, sizeof url, &err), TD_OK);
        assert_string_equal(url, good[i].out);
    }
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct td_error err = {0};

        assert_int_equal(td_api_url(bad[i], url, sizeof url, &err), TD_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read), cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(built_in_suites_hold_their_promises), cmocka_unit_test(plan_groups_by_concurrency),
        cmocka_unit_test(timed_levels_are_closed_loops), cmocka_unit_test(what_others_sent_is_one_loop), cmocka_unit_test(recorded_loops_are_planned_again),
        cmocka_unit_test(what_was_due_has_a_bound),
        cmocka_unit_test(a_recording_becomes_a_plan), cmocka_unit_test(what_was_due_waits_for_nothing),
        cmocka_unit_test(bodies_spell_sampling_out),
        cmocka_unit_test(native_bodies), cmocka_unit_test(refused_fields_are_left_out),
        cmocka_unit_test(salts_are_renewed_in_place), cmocka_unit_test(addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
