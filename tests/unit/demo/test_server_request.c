/* test_server_request.c - generation requests: defaults, limits, errors in vLLM's shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "demo/server/fault.h"
#include "demo/server/request.h"
#include "tests/unit/tiny_checkpoint.h"

static struct td_tokenizer *tokenizer;
static struct td_request_model model = {.name = "tiny", .context = 64, .vocab = 264};

static int open_model(void **state)
{
    char dir[] = "/tmp/td-request-XXXXXX";
    struct td_buf json = TD_BUF_INIT(1 << 20);
    int rc;

    (void)state;
    if (!mkdtemp(dir))
        return -1;
    tiny_tokenizer_json(&json);
    rc = tiny_write(dir, "tokenizer.json", &json) || td_tokenizer_open(&tokenizer, dir, NULL);
    td_fs_remove_tree(dir, NULL);
    td_buf_release(&json);
    model.tokenizer = tokenizer;
    return rc;
}

static int close_model(void **state)
{
    (void)state;
    td_tokenizer_close(tokenizer);
    return 0;
}

static struct td_request good(bool chat, const char *body)
{
    struct td_request r;
    struct td_server_error e = {0};

    if (!td_request_parse(&r, &model, chat, body, strlen(body), &e))
        fail_msg("%s: %d %s", body, e.status, e.message);
    return r;
}

static void test_defaults_are_vllms(void **state)
{
    struct td_request r = good(false, "{\"prompt\":\"Hi\"}");

    (void)state;
    assert_int_equal(r.max_tokens, 16);
    assert_true(r.sampling.temperature == 1 && r.sampling.top_p == 1);
    assert_int_equal(r.n_logprobs, -1);
    assert_true(r.skip_special && !r.stream && !r.ignore_eos && !r.return_token_ids && !r.tokens_as_ids);
    assert_int_equal(r.n_prompt, 2);
    assert_int_equal(r.prompt[0], 'H' - 33);
    td_request_release(&r);
    r = good(true, "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
    assert_int_equal(r.n_prompt, 4); /* <|user|> H i <|assistant|> */
    assert_int_equal(r.prompt[0], 257);
    assert_int_equal(r.prompt[3], 258);
    assert_int_equal(r.max_tokens, 60);
    td_request_release(&r);
}

static void test_every_field_arrives(void **state)
{
    struct td_request r = good(false, "{\"prompt\":[[5,6,263]],\"max_tokens\":7,\"min_tokens\":2,\"temperature\":0,\"top_p\":0.5,\"top_k\":-1,"
                                      "\"seed\":-3,\"ignore_eos\":true,\"logprobs\":0,\"return_token_ids\":true,"
                                      "\"return_tokens_as_token_ids\":true,\"skip_special_tokens\":false,\"stream\":true,"
                                      "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},\"stop\":[],\"n\":1,"
                                      "\"repetition_penalty\":1.0,\"presence_penalty\":0.0,\"unknown_field\":[1]}");

    (void)state;
    assert_true(r.max_tokens == 7 && r.min_tokens == 2 && r.sampling.temperature == 0 && r.sampling.top_p == 0.5 && r.sampling.top_k == -1);
    assert_true(r.sampling.rng == (uint64_t)-3 && r.ignore_eos && r.n_logprobs == 0 && r.return_token_ids && r.tokens_as_ids);
    assert_true(!r.skip_special && r.stream && r.include_usage && r.continuous_usage);
    assert_true(r.n_prompt == 3 && r.prompt[2] == 263);
    td_request_release(&r);
    r = good(true, "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a\\u0000\"}]}],\"logprobs\":true,\"top_logprobs\":4,"
                   "\"max_completion_tokens\":3,\"max_tokens\":9,\"seed\":9007199254740993}");
    assert_true(r.n_prompt == 4 && r.prompt[0] == 259 && r.prompt[2] == 188 && r.n_logprobs == 4 && r.max_tokens == 3);
    assert_true(r.sampling.rng == 9007199254740993u);
    td_request_release(&r);
}

static void test_bad_requests(void **state)
{
    static const struct { bool chat; const char *body; int status; const char *param, *says; } cases[] = {
        {false, "{\"prompt\"", 400, NULL, "json_invalid"},
        {false, "[1]", 400, NULL, "dictionary"},
        {false, "{}", 400, "prompt", "prompt"},
        {false, "{\"prompt\":\"\"}", 400, "prompt", "empty"},
        {false, "{\"prompt\":[]}", 400, "prompt", "empty"},
        {false, "{\"prompt\":[264]}", 400, "prompt", "264 is out of vocabulary"},
        {false, "{\"prompt\":[-1]}", 400, "prompt", "out of vocabulary"},
        {false, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "integer"},
        {false, "{\"prompt\":[\"a\",\"b\"]}", 400, "prompt", "several prompts"},
        {false, "{\"prompt\":\"a\",\"model\":\"other\"}", 404, "model", "The model `other` does not exist."},
        {false, "{\"prompt\":\"a\",\"max_tokens\":64}", 400, "input_tokens", "maximum context length is 64 tokens"},
        {false, "{\"prompt\":\"a\",\"max_tokens\":0}", 400, "max_tokens", "got 0"},
        {false, "{\"prompt\":\"a\",\"max_tokens\":1.5}", 400, "max_tokens", "integer"},
        {false, "{\"prompt\":\"a\",\"max_tokens\":1e99}", 400, "max_tokens", ""},
        {false, "{\"prompt\":\"a\",\"temperature\":-1}", 400, "temperature", "non-negative"},
        {false, "{\"prompt\":\"a\",\"temperature\":NaN}", 400, "temperature", ""},
        {false, "{\"prompt\":\"a\",\"top_p\":0}", 400, "top_p", "top_p"},
        {false, "{\"prompt\":\"a\",\"logprobs\":21}", 400, "logprobs", "21"},
        {false, "{\"prompt\":\"a\",\"stream_options\":{}}", 400, "stream_options", "stream=True"},
        {false, "{\"prompt\":\"a\",\"n\":2}", 400, "n", "not supported"},
        {false, "{\"prompt\":\"a\",\"stop\":[\"x\"]}", 400, "stop", "not supported"},
        {false, "{\"prompt\":\"a\",\"min_tokens\":17}", 400, "min_tokens", "max_tokens=16"},
        {false, "{\"prompt\":\"a\",\"prompt_logprobs\":1,\"stream\":true}", 400, "prompt_logprobs", "not available when `stream=True`"},
        {false, "{\"prompt\":\"a\",\"prompt_logprobs\":21}", 400, "prompt_logprobs", "21"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prompt_logprobs\":1}", 400, "prompt_logprobs", "not supported"},
        {true, "{\"prompt\":\"a\"}", 400, "messages", "list"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", 400, "content", "string"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", 400, "messages", "text"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_logprobs\":2}", 400, "top_logprobs", "logprobs"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_request r;
        struct td_server_error e = {0};
        assert_false(td_request_parse(&r, &model, cases[i].chat, cases[i].body, strlen(cases[i].body), &e));
        assert_null(r.prompt);
        if (e.status != cases[i].status || !strstr(e.message, cases[i].says) || !e.param != !cases[i].param ||
            (e.param && strcmp(e.param, cases[i].param) != 0))
            fail_msg("%s gave %d %s %s", cases[i].body, e.status, e.param ? e.param : "-", e.message);
    }
}

static void test_the_error_body(void **state)
{
    struct td_server_error e = {0};
    struct td_buf out = TD_BUF_INIT(1024);

    (void)state;
    assert_false(td_server_error_set(&e, 404, "model", "The model `%s` does not exist.", "x"));
    assert_false(td_server_error_set(&e, 400, NULL, "a later one is ignored"));
    td_server_error_render(&e, &out);
    assert_string_equal(td_buf_str(&out),
                        "{\"error\":{\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}");
    td_buf_release(&out);
}

static void test_faults(void **state)
{
    struct td_fault f;
    struct td_buf b = TD_BUF_INIT(256);

    (void)state;
    assert_int_equal(td_fault_parse(&f, "http500:3", NULL), 0);
    assert_false(td_fault_refuses(&f, 2));
    assert_true(td_fault_refuses(&f, 3));
    assert_int_equal(td_fault_parse(&f, "slow", NULL), TD_EINVAL);
    assert_int_equal(td_fault_parse(&f, "cut:x", NULL), TD_EINVAL);
    assert_int_equal(td_fault_parse(&f, "explode", NULL), TD_EINVAL);
    assert_int_equal(td_fault_parse(&f, "cut:1", NULL), 0);
    td_buf_adds(&b, "data: {\"text\":\"x\"}\n\n");
    assert_false(td_fault_spoil_event(&f, 0, &b));
    assert_int_equal(b.len, 20);
    assert_true(td_fault_spoil_event(&f, 1, &b));
    assert_int_equal(b.len, 10);
    td_buf_clear(&b);
    td_buf_adds(&b, "{\"text\":\"x\"}");
    assert_int_equal(td_fault_parse(&f, "nul-text", NULL), 0);
    assert_false(td_fault_spoil_body(&f, &b));
    assert_string_equal(td_buf_str(&b), "{\"text\":\"a\\u0000b\xFF\xC3(x\"}");
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults_are_vllms), cmocka_unit_test(test_every_field_arrives),
                                       cmocka_unit_test(test_bad_requests), cmocka_unit_test(test_the_error_body), cmocka_unit_test(test_faults)};

    return cmocka_run_group_tests(tests, open_model, close_model);
}
