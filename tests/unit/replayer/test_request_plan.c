/* test_request_plan.c - which requests of a recording are sent again: phases, repeats, redacted prompts.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "replayer/request_plan.h"

#define N 7

static char path[] = "/v1/completions", chat[] = "/v1/chat/completions", post[] = "POST", api[] = "vllm", ids[N][16], empty[] = "";
static int32_t prompt_ids[3] = {5, 6, 7};

/* Two prompts, two timed repeats, one tapped, and one warm-up. */
static void recording(struct td_exchange *xs)
{
    int i;

    memset(xs, 0, N * sizeof *xs);
    for (i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "p-%d", (i + 1) % 2);
        xs[i] = (struct td_exchange){.stream = (uint32_t)i, .prompt_id = ids[i], .category = empty, .repeat = i ? (i - 1) / 2 % 2 : 0,
                                     .concurrency = 1, .api = api, .method = post, .path = path, .t_sent_ns = 1000 * (i + 1),
                                     .t_end_ns = 1000 * (i + 1) + 500,
                                     .phase = i == 0 ? TD_PHASE_WARMUP : i < 5 ? TD_PHASE_TIMED : TD_PHASE_TAPPED};
        xs[i].request = cJSON_CreateObject();
        cJSON_AddStringToObject(xs[i].request, "prompt", "Hello");
        cJSON_AddNumberToObject(xs[i].request, "max_tokens", 8);
    }
}

static void release(struct td_exchange *xs)
{
    int i;

    for (i = 0; i < N; i++)
        cJSON_Delete(xs[i].request);
}

static void plan_of(struct td_exchange *xs, const char *manifest, int64_t repeat, double speed, struct td_plan *p,
                    struct td_request_plan_counts *s)
{
    cJSON *m = td_json_parse(manifest, strlen(manifest), NULL);

    memset(s, 0, sizeof *s);
    *p = (struct td_plan)TD_PLAN_INIT;
    assert_int_equal(td_request_plan_make(xs, N, m, repeat, speed, p, s, NULL), TD_OK);
    cJSON_Delete(m);
}

static void timed_repeats_only(void **state)
{
    struct td_exchange xs[N];
    struct td_request_plan_counts s;
    struct td_plan p;

    (void)state;
    recording(xs);
    plan_of(xs, "{}", 0, 0, &p, &s);
    assert_int_equal(p.n, 4);
    assert_int_equal(p.items[3].repeat, 1);
    assert_int_equal(p.items[0].phase, TD_PHASE_TIMED);
    assert_string_equal(p.items[0].body, "{\"prompt\":\"Hello\",\"max_tokens\":8}");
    assert_int_equal(p.items[0].at_ns, -1);
    td_plan_release(&p);
    release(xs);
}

static void other_numbers_of_repeats(void **state)
{
    struct td_exchange xs[N];
    struct td_request_plan_counts s;
    struct td_plan p;

    (void)state;
    recording(xs);
    plan_of(xs, "{}", 1, 0, &p, &s);
    assert_int_equal(p.n, 2);
    td_plan_release(&p);
    plan_of(xs, "{}", 5, 1, &p, &s); /* two recorded repeats, twice and a half */
    assert_int_equal(p.n, 10);
    assert_int_equal(p.items[9].repeat, 4);
    assert_true(p.items[9].at_ns > p.items[7].at_ns && p.items[4].at_ns > p.items[3].at_ns);
    td_plan_release(&p);
    release(xs);
}

static void tapped_when_there_is_nothing_else(void **state)
{
    struct td_exchange xs[N];
    struct td_request_plan_counts s;
    struct td_plan p;
    int i;

    (void)state;
    recording(xs);
    for (i = 1; i < 5; i++)
        xs[i].phase = TD_PHASE_TAPPED;
    plan_of(xs, "{}", 0, 0, &p, &s);
    assert_true(p.n > 0);
    assert_int_equal(p.items[0].phase, TD_PHASE_TIMED);
    td_plan_release(&p);
    release(xs);
}

static void redacted_prompts_go_as_ids(void **state)
{
    struct td_exchange xs[N];
    struct td_request_plan_counts s;
    struct td_plan p;
    int i;

    (void)state;
    recording(xs);
    for (i = 0; i < 3; i++) {
        xs[i].prompt_ids = prompt_ids;
        xs[i].n_prompt_ids = 3;
        xs[i].path = chat;
    }
    plan_of(xs, "{\"redaction\":{\"no_text\":true}}", 0, 0, &p, &s);
    assert_true(s.by_token_ids);
    assert_int_equal(p.n, 2);
    assert_int_equal(s.skipped, 2); /* no ids were recorded for them */
    assert_string_equal(p.items[0].path, "/v1/completions");
    assert_non_null(strstr(p.items[0].body, "\"prompt\":[5,6,7]"));
    assert_null(strstr(p.items[0].body, "Hello"));
    td_plan_release(&p);
    plan_of(xs, "{\"redaction\":{\"json_paths\":[\"user\"]}}", 0, 0, &p, &s);
    assert_false(s.by_token_ids);
    td_plan_release(&p);
    plan_of(xs, "{\"redaction\":{\"json_paths\":[\"messages[*].content\"]}}", 0, 0, &p, &s);
    assert_true(s.by_token_ids);
    td_plan_release(&p);
    release(xs);
}

/* What else is overwritten in a request changes what is asked for. SGLang's prompt has another name. */
static void other_redacted_parts_are_not_sent(void **state)
{
    struct td_exchange xs[N];
    struct td_request_plan_counts s;
    struct td_plan p;
    int i;

    (void)state;
    recording(xs);
    for (i = 1; i < 5; i++) {
        xs[i].prompt_ids = prompt_ids;
        xs[i].n_prompt_ids = 3;
        cJSON_ReplaceItemInObjectCaseSensitive(xs[i].request, "prompt", cJSON_CreateString("*****"));
    }
    cJSON_AddItemToArray(cJSON_AddArrayToObject(xs[1].request, "stop"), cJSON_CreateString("**"));
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(xs[2].request, "sampling_params"), "***", 11);
    cJSON_DeleteItemFromObjectCaseSensitive(xs[3].request, "prompt");
    cJSON_AddStringToObject(xs[3].request, "text", "*****");
    cJSON_AddStringToObject(xs[4].request, "stop", "");
    plan_of(xs, "{\"redaction\":{\"no_text\":true}}", 0, 0, &p, &s);
    assert_int_equal(s.skipped, 2);
    assert_int_equal(p.n, 2);
    assert_string_equal(p.items[0].body, "{\"max_tokens\":8,\"input_ids\":[5,6,7]}");
    assert_string_equal(p.items[1].body, "{\"max_tokens\":8,\"stop\":\"\",\"prompt\":[5,6,7]}");
    td_plan_release(&p);
    release(xs);
}

/* 9 tokens of prompt and 40 of answer in the longest; the warm-up and a failed one are longer, and do not count. */
static void what_does_not_fit_is_refused(void **state)
{
    struct td_exchange xs[N];
    struct td_api_server server = {.kind = TD_API_LLAMACPP, .url = "http://x:1"};
    struct td_error err = {0};
    char cut[] = "cut";
    int i;

    (void)state;
    recording(xs);
    for (i = 0; i < N; i++) {
        xs[i].usage.prompt_tokens = i == 3 ? 9 : 4;
        xs[i].n_tokens = i == 3 ? 40 : i ? 5 : 500;
    }
    xs[4].n_tokens = 300;
    xs[4].error_kind = cut;
    assert_int_equal(td_request_plan_check_context(xs, N, &server, &err), TD_OK); /* it does not say */
    server.max_model_len = 49;
    assert_int_equal(td_request_plan_check_context(xs, N, &server, &err), TD_OK);
    server.max_model_len = 48;
    assert_int_equal(td_request_plan_check_context(xs, N, &server, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "49 tokens (prompt p-0)"));
    assert_non_null(strstr(err.msg, "48"));
    td_error_clear(&err);
    cJSON_SetNumberValue(cJSON_GetObjectItem(xs[2].request, "max_tokens"), 46);
    server.max_model_len = 49;
    assert_int_equal(td_request_plan_check_context(xs, N, &server, &err), TD_OK);
    server.kind = TD_API_VLLM;
    assert_int_equal(td_request_plan_check_context(xs, N, &server, &err), TD_EINVAL);
    release(xs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timed_repeats_only), cmocka_unit_test(other_numbers_of_repeats),
        cmocka_unit_test(tapped_when_there_is_nothing_else), cmocka_unit_test(redacted_prompts_go_as_ids), cmocka_unit_test(other_redacted_parts_are_not_sent),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
