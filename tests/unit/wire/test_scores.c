/* test_scores.c - texts to be scored: which are kept, how they are asked, what comes back in each dialect.
 * SPDX-License-Identifier: Apache-2.0
 *
 * vLLM's bodies are those of a vLLM 0.32.0; SGLang's shape is from its documentation. */
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
#include "wire/scores.h"

/* ---- what comes back ------------------------------------------------------------------------------------------------ */

static int keep(void *arg, struct td_exchange *x, struct td_error *err)
{
    (void)err;
    *(struct td_exchange *)arg = *x;
    memset(x, 0, sizeof *x);
    return TD_OK;
}

/* The exchange of one request and its answer. */
static struct td_exchange derived(const char *request, int status, const char *answer)
{
    static const char open[] = "{\"open\":{\"prompt_id\":\"p\",\"phase\":\"warmup\",\"role\":\"scores\",\"scored_from\":3,\"api\":\"vllm\",\"path\":\"/v1/completions\"}}",
                      close[] = "{\"close\":{\"ok\":true}}";
    struct td_exchange x = {0};
    struct td_deriver *d = td_deriver_new(keep, &x);
    char sent[2000], got[6000];
    const struct { enum td_wire_dir dir; const char *s; } recs[] = {{TD_WIRE_NOTE, open}, {TD_WIRE_SENT, sent}, {TD_WIRE_RECEIVED, got}, {TD_WIRE_NOTE, close}};
    size_t i;

    snprintf(sent, sizeof sent, "POST /v1/completions HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s", strlen(request), request);
    snprintf(got, sizeof got, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(answer), answer);
    for (i = 0; i < 4; i++) {
        struct td_wire rec = {.t_ns = (int64_t)i + 1, .stream = 1, .dir = recs[i].dir, .data = (const uint8_t *)recs[i].s, .len = strlen(recs[i].s)};

        assert_int_equal(td_deriver_feed(d, &rec, NULL), TD_OK);
    }
    td_deriver_free(d);
    return x;
}

#define ASK "{\"prompt\":[504,2068,6450,42,1234],\"max_tokens\":1,\"prompt_logprobs\":1}"
#define VLLM_PROMPT "[null,{\"2068\":{\"logprob\":-7.5,\"rank\":94,\"decoded_token\":\"To\"},\"29\":{\"logprob\":-0.75,\"rank\":1,\"decoded_token\":\"-\"}}," \
    "{\"6450\":{\"logprob\":-15.5,\"rank\":14604,\"decoded_token\":\" fixed\"},\"500\":{\"logprob\":-2.25,\"rank\":1,\"decoded_token\":\"ast\"}}," \
    "{\"42\":{\"logprob\":-0.25,\"rank\":1,\"decoded_token\":\":\"}}," \
    "{\"198\":{\"logprob\":-1.5,\"rank\":1,\"decoded_token\":\"\\n\"},\"1234\":{\"logprob\":-11.5,\"rank\":4174,\"decoded_token\":\" redu\"}}]"

static void check(const struct td_exchange *x)
{
    static const float own[] = {-INFINITY, -7.5f, -15.5f, -0.25f, -11.5f};
    static const int32_t top[] = {-1, 29, 500, 42, 198};
    int i;

    assert_null(x->error);
    assert_int_equal(x->n_scores, 5);
    assert_int_equal(x->scored_from, 3);
    assert_int_equal(x->n_tokens, 1);
    for (i = 0; i < 5; i++) {
        assert_true(x->scores[i] == own[i]);
        assert_int_equal(x->scores_top[i].id, top[i]);
    }
    assert_true(td_scores_role(x));
    assert_int_equal(td_scores_outcome(x), TD_SCORED);
}

/* Written as a line, and read back. */
static void check_again(const struct td_exchange *x)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);
    struct td_error err = {0};
    struct td_exchange y;
    cJSON *v;

    assert_int_equal(td_exchange_write(x, &b), TD_OK);
    v = td_json_parse(td_buf_str(&b), b.len, NULL);
    assert_int_equal(td_exchange_read(v, &y, NULL), TD_OK);
    check(&y);
    td_exchange_release(&y);
    cJSON_DeleteItemFromArray(cJSON_GetObjectItem(v, "scores"), 0); /* one less than the prompt has tokens */
    assert_int_equal(td_exchange_read(v, &y, &err), TD_ECORRUPT);
    cJSON_Delete(v);
    td_buf_release(&b);
}

static void every_form(void **state)
{
    static const char *const forms[][2] = {
        {ASK, "{\"id\":\"cmpl-9\",\"choices\":[{\"index\":0,\"text\":\"c\",\"logprobs\":null,\"finish_reason\":\"length\",\"token_ids\":[83],\"prompt_logprobs\":"
              VLLM_PROMPT ",\"prompt_token_ids\":[504,2068,6450,42,1234]}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}"},
        {"{\"token_ids\":[504,2068,6450,42,1234]}", "{\"request_id\":\"g\",\"prompt_logprobs\":" VLLM_PROMPT
              ",\"prompt_token_ids\":null,\"choices\":[{\"index\":0,\"finish_reason\":\"length\",\"token_ids\":[260],\"logprobs\":null}]}"},
        {"{\"input_ids\":[504,2068,6450,42,1234]}", "{\"text\":\"c\",\"output_ids\":[83],\"meta_info\":{\"id\":\"r\",\"finish_reason\":{\"type\":\"length\"},\"prompt_tokens\":5,"
              "\"completion_tokens\":1,\"input_token_logprobs\":[[null,504,null],[-7.5,2068,null],[-15.5,6450,null],[-0.25,42,null],[-11.5,1234,null]],"
              "\"input_top_logprobs\":[null,[[-0.75,29,null]],[[-2.25,500,null]],[[-0.25,42,null]],[[-1.5,198,null]]]}}"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct td_exchange x = derived(forms[i][0], 200, forms[i][1]);

        check(&x);
        check_again(&x);
        td_exchange_release(&x);
    }
}

static enum td_scored outcome(int status, const char *answer)
{
    struct td_exchange x = derived(ASK, status, answer);
    enum td_scored o = td_scores_outcome(&x);

    td_exchange_release(&x);
    return o;
}

static void outcomes(void **state)
{
#define ANSWER(prompt_logprobs) "{\"choices\":[{\"index\":0,\"text\":\"c\",\"finish_reason\":\"length\",\"prompt_logprobs\":" prompt_logprobs "}]}"
    (void)state;
    assert_int_equal(outcome(200, ANSWER(VLLM_PROMPT)), TD_SCORED);
    assert_int_equal(outcome(200, ANSWER("null")), TD_SCORED_REFUSED);
    assert_int_equal(outcome(200, ANSWER("[null,null]")), TD_SCORED_REFUSED); /* not as many as the prompt has */
    assert_int_equal(outcome(200, ANSWER("{\"1\":2}")), TD_SCORED_REFUSED);
    assert_int_equal(outcome(200, ANSWER("[7,\"x\",[{}],{\"a\":null},{\"1\":[]}]")), TD_SCORED); /* five of something: nothing is said of any */
    assert_int_equal(outcome(400, "{\"error\":{\"message\":\"prompt_logprobs is not supported\"}}"), TD_SCORED_REFUSED);
    assert_int_equal(outcome(404, "{\"detail\":\"Not Found\"}"), TD_SCORED_REFUSED);
    assert_int_equal(outcome(400, "{\"error\":{\"message\":\"Out of range float values are not JSON compliant: nan\"}}"), TD_SCORED_NAN);
    assert_int_equal(outcome(500, "{\"error\":{\"message\":\"EngineCore encountered an issue.\"}}"), TD_SCORED_FAILED);
}

/* ---- what is asked -------------------------------------------------------------------------------------------------- */

static struct td_exchange answer(const char *id, int32_t repeat, int32_t n_prompt, int32_t n_tokens)
{
    struct td_exchange x = {.prompt_id = strdup(id), .repeat = repeat, .phase = TD_PHASE_TIMED, .n_prompt_ids = n_prompt, .n_tokens = n_tokens, .ids_complete = true};
    int32_t i;

    x.prompt_ids = malloc((size_t)n_prompt * sizeof *x.prompt_ids);
    x.token_ids = malloc((size_t)n_tokens * sizeof *x.token_ids);
    for (i = 0; i < n_prompt; i++)
        x.prompt_ids[i] = 10 + i;
    for (i = 0; i < n_tokens; i++)
        x.token_ids[i] = 9000 + repeat;
    return x;
}

static void see(struct td_scores *s, struct td_exchange x)
{
    assert_int_equal(td_scores_add(s, &x, NULL), TD_OK);
    td_exchange_release(&x);
}

struct server { struct td_scores *s; const char *answer; int status, plans; size_t sent; cJSON *first; int64_t groups[8]; int32_t from[8]; };

/* A server that says the same to all. */
static int serve(void *arg, const struct td_plan *plan, struct td_error *err)
{
    struct server *v = arg;
    size_t i;

    (void)err;
    v->plans++;
    for (i = 0; i < plan->n; i++) {
        struct td_exchange x = derived(ASK, v->status, v->answer);

        if (!v->first)
            v->first = td_json_parse(plan->items[i].body, plan->items[i].body_len, NULL);
        assert_string_equal(plan->items[i].role, "scores");
        assert_int_equal(plan->items[i].phase, TD_PHASE_WARMUP);
        v->groups[v->sent % 8] = plan->items[i].group;
        v->from[v->sent % 8] = plan->items[i].scored_from;
        v->sent++;
        td_scores_add(v->s, &x, NULL);
        td_exchange_release(&x);
    }
    return TD_OK;
}

static const struct td_api_server VLLM = {.kind = TD_API_VLLM, .model = "m", .max_model_len = 30};

static void first_answers_twice(void **state)
{
    struct td_scores s;
    struct server v = {.s = &s, .answer = ANSWER(VLLM_PROMPT), .status = 200};
    struct td_extras e = {.n = 0};

    (void)state;
    td_scores_init(&s, 3);
    see(&s, answer("a", 0, 4, 5));
    see(&s, answer("a", 1, 4, 5));                        /* another repeat */
    see(&s, answer("b", 0, 20, 12));                      /* 32 tokens, of which the server takes 29 and one of its own */
    see(&s, answer("long", 0, TD_SCORES_MAX_TOKENS, 5));
    see(&s, answer("c", 0, 4, 5));
    see(&s, answer("d", 0, 4, 5));                        /* over --scores 3 */
    assert_int_equal(s.n, 3);
    assert_int_equal(s.too_long, 1);
    assert_int_equal(td_scores_ask(&s, &VLLM, serve, &v, NULL), TD_OK);
    assert_int_equal(v.plans, 2);
    assert_int_equal(v.sent, 6);
    assert_int_equal(v.from[1], 20);
    assert_true(v.groups[0] != v.groups[1] && v.groups[1] != v.groups[2] && v.groups[2] != v.groups[3]);
    assert_true(v.groups[3] == v.groups[4] && v.groups[4] == v.groups[5]); /* together in the second pass */
    assert_int_equal(cJSON_GetArraySize(td_json_get(v.first, "prompt")), 9);
    assert_int_equal(cJSON_GetArrayItem(td_json_get(v.first, "prompt"), 4)->valueint, 9000);
    assert_int_equal(td_json_get_i64(v.first, "prompt_logprobs", -1), 1);
    assert_int_equal(td_json_get_i64(v.first, "max_tokens", -1), 1);
    assert_false(td_json_get_bool(v.first, "stream", true));
    td_scores_extra(&s, &VLLM, &e);
    assert_string_equal(e.list[0].got, "yes");
    cJSON_Delete(v.first);
    td_scores_release(&s);
}

static void asked_once_of_who_refuses(void **state)
{
    struct td_scores s;
    struct server v = {.s = &s, .answer = "{\"error\":{\"message\":\"no prompt_logprobs here\"}}", .status = 400};
    struct td_extras e = {.n = 0};
    struct td_api_server llama = {.kind = TD_API_LLAMACPP};

    (void)state;
    td_scores_init(&s, 8);
    see(&s, answer("a", 0, 4, 5));
    see(&s, answer("b", 0, 4, 5));
    assert_int_equal(td_scores_ask(&s, &llama, serve, &v, NULL), TD_OK);
    assert_int_equal(v.sent, 0);
    td_scores_extra(&s, &llama, &e);
    assert_string_equal(e.list[0].got, "no");
    assert_int_equal(td_scores_ask(&s, &VLLM, serve, &v, NULL), TD_OK);
    assert_int_equal(v.sent, 1);
    td_scores_extra(&s, &VLLM, &e);
    assert_string_equal(e.list[0].got, "refused");
    assert_non_null(strstr(e.list[0].why, "no prompt_logprobs here"));
    cJSON_Delete(v.first);
    td_scores_release(&s);
}

/* The ids of the answer, where those of the body were overwritten by redaction. */
static void asked_again(void **state)
{
    struct td_plan plan = TD_PLAN_INIT;
    struct td_exchange xs[3];
    cJSON *body;

    (void)state;
    xs[0] = derived("{\"prompt\":[111,111,111,11,1111],\"prompt_logprobs\":1,\"cache_salt\":\"td-0000000000000000\"}", 200,
                    "{\"choices\":[{\"index\":0,\"text\":\"c\",\"finish_reason\":\"length\",\"prompt_token_ids\":[504,2068,6450,42,1234],\"prompt_logprobs\":" VLLM_PROMPT "}]}");
    xs[1] = derived(ASK, 500, "{}");
    xs[2] = answer("a", 0, 4, 5);
    assert_int_equal(td_scores_plan_again(xs, 3, &plan, NULL), TD_OK);
    assert_int_equal(plan.n, 1);
    assert_int_equal(plan.items[0].scored_from, 3);
    body = td_json_parse(plan.items[0].body, plan.items[0].body_len, NULL);
    assert_int_equal(cJSON_GetArrayItem(td_json_get(body, "prompt"), 4)->valueint, 1234);
    assert_int_equal(td_json_get_i64(body, "prompt_logprobs", -1), 1);
    cJSON_Delete(body);
    td_plan_release(&plan);
    while (plan.n++ < 3)
        td_exchange_release(&xs[plan.n - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form), cmocka_unit_test(outcomes), cmocka_unit_test(first_answers_twice),
        cmocka_unit_test(asked_once_of_who_refuses), cmocka_unit_test(asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
