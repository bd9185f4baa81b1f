/* test_server_reply.c - answers to the letter: vLLM 0.32's members in vLLM's order (docs: notes on the wire, CompletionResponse).
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "demo/server/reply.h"
#include "tests/unit/tiny_checkpoint.h"

static struct td_tokenizer *tokenizer;
static int32_t prompt[] = {1, 2};

static int open_tokenizer(void **state)
{
    char dir[] = "/tmp/td-reply-XXXXXX";
    struct td_buf json = TD_BUF_INIT(1 << 20);
    int rc;

    (void)state;
    if (!mkdtemp(dir))
        return -1;
    tiny_tokenizer_json(&json);
    rc = tiny_write(dir, "tokenizer.json", &json) || td_tokenizer_open(&tokenizer, dir, NULL);
    td_fs_remove_tree(dir, NULL);
    td_buf_release(&json);
    return rc;
}

static int close_tokenizer(void **state)
{
    (void)state;
    td_tokenizer_close(tokenizer);
    return 0;
}

static struct td_reply reply_to(const struct td_request *request)
{
    return (struct td_reply){.request = request, .tokenizer = tokenizer, .model = "m", .fingerprint = "fp", .id = "cmpl-X", .created_s = 1};
}

static struct td_token token(char c, float logprob)
{
    int32_t id;

    td_tokenizer_encode(tokenizer, &c, 1, &id);
    return (struct td_token){.id = id, .n_top = 1, .top_id = {id}, .top_logprob = {logprob}};
}

#define HEAD "data: {\"id\":\"cmpl-X\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":["

static void expect(struct td_buf *out, const char *want)
{
    assert_string_equal(td_buf_str(out), want);
    td_buf_clear(out);
}

static void test_a_stream_of_completions(void **state)
{
    struct td_request q = {.n_logprobs = -1, .return_token_ids = true, .skip_special = true, .include_usage = true, .prompt = prompt, .n_prompt = 2};
    struct td_reply r = reply_to(&q);
    struct td_token t[3] = {token('P', 0), token('\xC3', 0), token('\xA9', 0)};
    struct td_buf out = TD_BUF_INIT(4096);

    (void)state;
    td_reply_token_event(&r, &t[0], TD_FINISH_NONE, &out);
    expect(&out, HEAD "{\"index\":0,\"text\":\"P\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\"prompt_token_ids\":[1,2],"
                      "\"token_ids\":[47]}]}\n\n");
    td_reply_token_event(&r, &t[1], TD_FINISH_NONE, &out); /* half a character: no text, but an id */
    expect(&out, HEAD "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\"prompt_token_ids\":null,"
                      "\"token_ids\":[127]}]}\n\n");
    td_reply_token_event(&r, &t[2], TD_FINISH_LENGTH, &out);
    expect(&out, HEAD "{\"index\":0,\"text\":\"\xC3\xA9\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null,"
                      "\"prompt_token_ids\":null,\"token_ids\":[102]}]}\n\n");
    td_reply_usage_event(&r, &out);
    expect(&out, HEAD "],\"usage\":{\"prompt_tokens\":2,\"total_tokens\":5,\"completion_tokens\":3},\"system_fingerprint\":\"fp\"}\n\n");
    td_buf_release(&out);
}

static void test_a_stream_of_chat(void **state)
{
    struct td_request q = {.chat = true, .n_logprobs = 1, .skip_special = true, .prompt = prompt, .n_prompt = 2};
    struct td_reply r = reply_to(&q);
    struct td_token t = token('!', -0.5f);
    struct td_buf out = TD_BUF_INIT(4096);

    (void)state;
    td_reply_role_event(&r, &out);
    expect(&out, "data: {\"id\":\"cmpl-X\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":"
                 "{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null,"
                 "\"prompt_text\":null}\n\n");
    td_reply_token_event(&r, &t, TD_FINISH_STOP, &out);
    expect(&out, "data: {\"id\":\"cmpl-X\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":"
                 "{\"content\":\"!\"},\"logprobs\":{\"content\":[{\"token\":\"!\",\"logprob\":-0.5,\"bytes\":[33],\"top_logprobs\":[{\"token\":\"!\","
                 "\"logprob\":-0.5,\"bytes\":[33]}]}]},\"finish_reason\":\"stop\",\"stop_reason\":null,\"token_ids\":null}],"
                 "\"system_fingerprint\":\"fp\"}\n\n");
    td_buf_release(&out);
}

static void test_logprobs_of_a_stream(void **state)
{
    struct td_request q = {.n_logprobs = 2, .tokens_as_ids = true, .skip_special = true, .prompt = prompt, .n_prompt = 2};
    struct td_reply r = reply_to(&q);
    struct td_token t = {.id = 5, .n_top = 3, .top_id = {5, 7, 9}, .top_logprob = {-1.5f, NAN, -INFINITY}};
    struct td_buf out = TD_BUF_INIT(4096);

    (void)state;
    r.text_offset = 11;
    td_reply_token_event(&r, &t, TD_FINISH_NONE, &out); /* NaN is null, -inf is vLLM's -9999 */
    assert_non_null(strstr(td_buf_str(&out), "\"logprobs\":{\"text_offset\":[11],\"token_logprobs\":[-1.5],\"tokens\":[\"token_id:5\"],"
                                             "\"top_logprobs\":[{\"token_id:5\":-1.5,\"token_id:7\":null,\"token_id:9\":-9999"));
    assert_int_equal(r.text_offset, 21);
    td_buf_release(&out);
}

static void test_names_that_are_equal_meet(void **state)
{
    struct td_request q = {.n_logprobs = 2, .skip_special = true, .prompt = prompt, .n_prompt = 2};
    struct td_reply r = reply_to(&q);
    struct td_token a = token('\xC3', -1), b = token('x', -2), c = token('\xA9', -3);
    struct td_buf out = TD_BUF_INIT(4096);

    (void)state;
    a.n_top = 3;
    a.top_id[1] = b.id;
    a.top_id[2] = c.id;
    a.top_logprob[1] = -2;
    a.top_logprob[2] = -3;
    td_reply_token_event(&r, &a, TD_FINISH_NONE, &out);
    assert_non_null(strstr(td_buf_str(&out), "\"top_logprobs\":[{\"\xEF\xBF\xBD\":-3"));
    assert_non_null(strstr(td_buf_str(&out), ",\"x\":-2"));
    td_buf_release(&out);
}

static void test_a_whole_answer(void **state)
{
    struct td_request q = {.n_logprobs = 0, .return_token_ids = true, .skip_special = true, .prompt = prompt, .n_prompt = 2};
    struct td_reply r = reply_to(&q);
    struct td_token t[2] = {token('a', -0.25f), {.id = 256, .n_top = 1, .top_id = {256}, .top_logprob = {-0.5f}}};
    struct td_server_error e = {0};
    struct td_buf out = TD_BUF_INIT(4096);

    (void)state;
    assert_true(td_reply_complete(&r, t, 2, TD_FINISH_STOP, &out, &e));
    expect(&out, "{\"id\":\"cmpl-X\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":"
                 "{\"text_offset\":[0,1],\"token_logprobs\":[-0.25,-0.5],\"tokens\":[\"a\",\"<|endoftext|>\"],\"top_logprobs\":[{\"a\":-0.25},"
                 "{\"<|endoftext|>\":-0.5}]},\"finish_reason\":\"stop\",\"stop_reason\":null,\"token_ids\":[64,256],\"prompt_logprobs\":null,"
                 "\"prompt_token_ids\":[1,2],\"routed_experts\":null}],\"service_tier\":null,\"system_fingerprint\":\"fp\",\"usage\":"
                 "{\"prompt_tokens\":2,\"total_tokens\":4,\"completion_tokens\":2,\"prompt_tokens_details\":null},\"kv_transfer_params\":null,"
                 "\"metrics\":null}");
    t[1].top_logprob[0] = NAN;
    assert_false(td_reply_complete(&r, t, 2, TD_FINISH_STOP, &out, &e));
    assert_int_equal(e.status, 400);
    assert_string_equal(e.message, "Out of range float values are not JSON compliant: nan");
    td_buf_release(&out);
}

/* The token itself, then the likeliest; ranks as a count of what is as likely or more. Tokens are spelt out, whatever their names in logprobs. */
static void test_logprobs_of_the_prompt(void **state)
{
    struct td_request q = {.n_logprobs = -1, .n_prompt_logprobs = 1, .tokens_as_ids = true, .skip_special = true, .prompt = prompt, .n_prompt = 2};
    struct td_token of_prompt[2] = {{.id = 0}, {.id = 2, .rank = 3, .n_top = 2, .top_id = {2, 64}, .top_logprob = {-2.5f, -0.5f}}};
    struct td_reply r = reply_to(&q);
    struct td_token t = token('a', -0.25f);
    struct td_server_error e = {0};
    struct td_buf out = TD_BUF_INIT(4096);

    (void)state;
    r.prompt_scores = of_prompt;
    assert_true(td_reply_complete(&r, &t, 1, TD_FINISH_LENGTH, &out, &e));
    assert_non_null(strstr(td_buf_str(&out), "\"prompt_logprobs\":[null,{\"2\":{\"logprob\":-2.5,\"rank\":3,\"decoded_token\":\"#\"},"
                                             "\"64\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\"a\"}}],"));
    of_prompt[1].top_logprob[1] = NAN;
    assert_false(td_reply_complete(&r, &t, 1, TD_FINISH_LENGTH, &out, &e));
    assert_string_equal(e.message, "Out of range float values are not JSON compliant: nan");
    td_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_stream_of_completions), cmocka_unit_test(test_a_stream_of_chat),
                                       cmocka_unit_test(test_logprobs_of_a_stream), cmocka_unit_test(test_names_that_are_equal_meet),
                                       cmocka_unit_test(test_a_whole_answer), cmocka_unit_test(test_logprobs_of_the_prompt)};

    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
