/* test_allowed_requests.c - a fixture chooses neither the host, nor the method, nor any path.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/allowed_requests.h"

static const char *refusal(enum td_api_kind kind, const char *method, const char *path, const char *const *more)
{
    static struct td_error err;

    err = (struct td_error){0};
    return td_allowed_request(kind, method, path, more, &err) ? err.msg : NULL;
}

static void test_a_dialects_own_paths(void **state)
{
    (void)state;
    assert_null(refusal(TD_API_VLLM, "POST", "/v1/completions", NULL));
    assert_null(refusal(TD_API_OPENAI, "POST", "/v1/chat/completions", NULL));
    assert_null(refusal(TD_API_VLLM, "POST", "/inference/v1/generate", NULL));
    assert_null(refusal(TD_API_LLAMACPP, "POST", "/completion", NULL));
    assert_null(refusal(TD_API_SGLANG, "POST", "/generate", NULL));
    assert_null(refusal(TD_API_AUTO, "POST", "/generate", NULL));
    assert_non_null(refusal(TD_API_VLLM, "POST", "/generate", NULL));
    assert_null(refusal(TD_API_VLLM, "POST", "/v1/completions?api_key=***", NULL));
}

/* Each of these reached a server, or another host, before there was a list. */
static void test_what_a_hostile_fixture_asks_for(void **state)
{
    static const char *const paths[] = {
        "@127.0.0.1:9/v1/completions", ".evil.example/v1/completions", ":9/v1/completions", "", "v1/completions",
        "/v1/unload_lora_adapter", "/v1/completions/../unload_lora_adapter", "//evil.example/v1/completions",
        "/v1/completions HTTP/1.1\r\nX: y", "/v1/completions?a b", "/v1/completions?\r\nX: y",
        "/v1/completions#/v1/completions", "/v1/completions\x7f", "/v1/completions?\xc3\xa4",
    };
    static const char *const methods[] = {"GET", "DELETE", "post", "POST / HTTP/1.1\r\nHost: evil\r\n\r\nPOST", ""};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_non_null(refusal(TD_API_VLLM, "POST", paths[i], NULL));
    for (i = 0; i < sizeof methods / sizeof *methods; i++)
        assert_non_null(refusal(TD_API_VLLM, methods[i], "/v1/completions", NULL));
}

static void test_the_sentence_is_one_printable_line(void **state)
{
    const char *why = refusal(TD_API_VLLM, "PO\x1bST", "/x\r\nverdict: pass\x1b[2J", NULL);

    (void)state;
    assert_non_null(why);
    assert_null(strpbrk(why, "\r\n\x1b"));
    assert_non_null(strstr(why, "PO\\x1bST /x\\x0d\\nverdict: pass\\x1b[2J"));
    assert_null(strstr(why, "--allow-path"));
    assert_non_null(strstr(refusal(TD_API_VLLM, "POST", "/v1/embeddings?x", NULL), "--allow-path /v1/embeddings"));
}

/* record refuses such a rule; an old recording may have it. */
static void test_what_a_rule_has_overwritten(void **state)
{
    (void)state;
    assert_non_null(strstr(refusal(TD_API_VLLM, "****", "***************", NULL), "--redact has overwritten"));
    assert_null(strstr(refusal(TD_API_VLLM, "****", "***************", NULL), "Do not trust"));
    assert_non_null(strstr(refusal(TD_API_VLLM, "POST", "/v1/***", NULL), "--allow-path"));
}

static void test_a_path_that_the_user_allows(void **state)
{
    static const char *const more[] = {"/v1/embeddings", NULL};

    (void)state;
    assert_null(refusal(TD_API_VLLM, "POST", "/v1/embeddings", more));
    assert_null(refusal(TD_API_VLLM, "POST", "/v1/embeddings?x=1", more));
    assert_non_null(refusal(TD_API_VLLM, "POST", "/v1/embedding", more));
    assert_non_null(refusal(TD_API_VLLM, "DELETE", "/v1/embeddings", more));
}

static void test_which_paths_a_user_may_name(void **state)
{
    static const char *const bad[] = {"", "v1", "//host/x", "/a b", "/a?b", "/a#b", "/a\n", "@host/", "/a\\b"};
    struct td_error err = {0};
    size_t i;

    (void)state;
    assert_int_equal(td_allowed_path_check("/v1/embeddings", &err), TD_OK);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(td_allowed_path_check(bad[i], &err), TD_EINVAL);
}

static void test_one_bad_request_stops_a_plan(void **state)
{
    char id[] = "p", none[] = "", api[] = "vllm", post[] = "POST", good[] = "/v1/completions", bad[] = "@h/v1/completions";
    struct td_plan plan = TD_PLAN_INIT;
    struct td_plan_item it = {.prompt_id = id, .category = none, .api = api, .method = post, .path = good, .body = none};
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_plan_add(&plan, &it, &err), TD_OK);
    assert_int_equal(td_allowed_plan(TD_API_VLLM, &plan, NULL, &err), TD_OK);
    it.path = bad;
    assert_int_equal(td_plan_add(&plan, &it, &err), TD_OK);
    assert_int_equal(td_allowed_plan(TD_API_VLLM, &plan, NULL, &err), TD_EINVAL);
    td_plan_release(&plan);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dialects_own_paths),
        cmocka_unit_test(test_what_a_hostile_fixture_asks_for),
        cmocka_unit_test(test_the_sentence_is_one_printable_line),
        cmocka_unit_test(test_what_a_rule_has_overwritten),
        cmocka_unit_test(test_a_path_that_the_user_allows),
        cmocka_unit_test(test_which_paths_a_user_may_name),
        cmocka_unit_test(test_one_bad_request_stops_a_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
