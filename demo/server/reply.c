/* reply.c - write the JSON of vLLM's answers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/server/reply.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"

#define MAX_EVENT ((size_t)4 << 20)

/* ---- tokens as strings --------------------------------------------------------------------------------------------- */

/* The name of a token in logprobs: "token_id:17", or its text with U+FFFD for a byte that is no
 * character alone. */
static void token_string(const struct td_reply *r, int32_t id, struct td_buf *out)
{
    const char *bytes;
    size_t n;

    td_buf_clear(out);
    if (r->request->tokens_as_ids) {
        td_buf_addf(out, "token_id:%d", id);
        return;
    }
    bytes = td_tokenizer_bytes(r->tokenizer, id, &n);
    td_utf8_clean(bytes, n, out);
}

static int count_chars(const struct td_buf *text)
{
    int n = 0;

    for (size_t i = 0; i < text->len; i++)
        n += ((unsigned char)text->data[i] & 0xC0) != 0x80;
    return n;
}

/* The text that a token adds to the answer. */
static void add_text(struct td_reply *r, const struct td_token *t, struct td_buf *text)
{
    size_t n;
    const char *bytes = td_tokenizer_bytes(r->tokenizer, t->id, &n);

    if (!td_tokenizer_is_special(r->tokenizer, t->id) || !r->request->skip_special)
        td_detok_add(&r->detok, bytes, n, text);
}

/* ---- logprobs ------------------------------------------------------------------------------------------------------ */

static void write_logprob(struct td_jw *w, const char *key, float v)
{
    if (isnan(v))
        td_jw_null(w, key);
    else
        td_jw_num(w, key, v > -9999.0f ? (double)v : -9999.0);
}

/* {"name": logprob}. Names that are equal (bytes that are no characters) meet in one member, as in a Python dict: the place of
 * the first, the value of the last. */
static void write_top_object(struct td_jw *w, const struct td_reply *r, const struct td_token *t)
{
    struct td_buf name[TD_TOP_MAX + 1];
    float value[TD_TOP_MAX + 1];
    int n = 0;

    for (int i = 0; i < t->n_top && i <= r->request->n_logprobs; i++) {
        int same = 0;
        td_buf_init(&name[n], 64);
        token_string(r, t->top_id[i], &name[n]);
        while (same < n && strcmp(td_buf_str(&name[same]), td_buf_str(&name[n])) != 0)
            same++;
        value[same] = t->top_logprob[i];
        if (same == n)
            n++;
        else
            td_buf_release(&name[n]);
    }
    td_jw_obj(w, NULL);
    for (int i = 0; i < n; i++) {
        write_logprob(w, td_buf_str(&name[i]), value[i]);
        td_buf_release(&name[i]);
    }
    td_jw_end(w);
}

static void write_completion_logprobs(struct td_jw *w, struct td_reply *r, const struct td_token *tokens, int n)
{
    struct td_buf name = TD_BUF_INIT(64);

    td_jw_obj(w, "logprobs");
    td_jw_arr(w, "text_offset");
    for (int i = 0; i < n; i++) {
        td_jw_i64(w, NULL, r->text_offset);
        token_string(r, tokens[i].id, &name);
        r->text_offset += count_chars(&name);
    }
    td_jw_end(w);
    td_jw_arr(w, "token_logprobs");
    for (int i = 0; i < n; i++)
        write_logprob(w, NULL, tokens[i].top_logprob[0]);
    td_jw_end(w);
    td_jw_arr(w, "tokens");
    for (int i = 0; i < n; i++) {
        token_string(r, tokens[i].id, &name);
        td_jw_str(w, NULL, td_buf_str(&name), name.len);
    }
    td_jw_end(w);
    td_jw_arr(w, "top_logprobs");
    for (int i = 0; i < n; i++)
        write_top_object(w, r, &tokens[i]);
    td_jw_end(w);
    td_jw_end(w);
    td_buf_release(&name);
}

static void write_chat_token(struct td_jw *w, const struct td_reply *r, int32_t id, float logprob)
{
    struct td_buf name = TD_BUF_INIT(64);

    token_string(r, id, &name);
    td_jw_str(w, "token", td_buf_str(&name), name.len);
    write_logprob(w, "logprob", logprob);
    td_jw_arr(w, "bytes");
    for (size_t i = 0; i < name.len; i++)
        td_jw_i64(w, NULL, (unsigned char)name.data[i]);
    td_jw_end(w);
    td_buf_release(&name);
}

static void write_chat_logprobs(struct td_jw *w, const struct td_reply *r, const struct td_token *tokens, int n)
{
    td_jw_obj(w, "logprobs");
    td_jw_arr(w, "content");
    for (int i = 0; i < n; i++) {
        const struct td_token *t = &tokens[i];
        td_jw_obj(w, NULL);
        write_chat_token(w, r, t->id, t->top_logprob[0]);
        td_jw_arr(w, "top_logprobs");
        for (int k = 0; k < t->n_top && k < r->request->n_logprobs; k++) {
            td_jw_obj(w, NULL);
            write_chat_token(w, r, t->top_id[k], t->top_logprob[k]);
            td_jw_end(w);
        }
        td_jw_end(w);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

static void write_logprobs(struct td_jw *w, struct td_reply *r, const struct td_token *tokens, int n)
{
    if (r->request->n_logprobs < 0 || n == 0)
        td_jw_null(w, "logprobs");
    else if (r->request->chat)
        write_chat_logprobs(w, r, tokens, n);
    else
        write_completion_logprobs(w, r, tokens, n);
}

/* ---- parts that all answers share ------------------------------------------------------------------------------------ */

static void write_head(struct td_jw *w, const struct td_reply *r, const char *object)
{
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "id", r->id);
    td_jw_cstr(w, "object", object);
    td_jw_i64(w, "created", r->created_s);
    td_jw_cstr(w, "model", r->model);
}

static void write_finish(struct td_jw *w, enum td_finish finish)
{
    td_jw_cstr(w, "finish_reason", td_finish_name(finish));
    td_jw_null(w, "stop_reason");
}

static void write_prompt_ids(struct td_jw *w, const struct td_reply *r, bool wanted)
{
    if (!wanted || !r->request->return_token_ids) {
        td_jw_null(w, "prompt_token_ids");
        return;
    }
    td_jw_i32s(w, "prompt_token_ids", r->request->prompt, r->request->n_prompt);
}

static void write_token_ids(struct td_jw *w, const struct td_reply *r, const struct td_token *tokens, int n)
{
    if (!r->request->return_token_ids) {
        td_jw_null(w, "token_ids");
        return;
    }
    td_jw_arr(w, "token_ids");
    for (int i = 0; i < n; i++)
        td_jw_i64(w, NULL, tokens[i].id);
    td_jw_end(w);
}

static void write_usage(struct td_jw *w, const struct td_reply *r)
{
    td_jw_obj(w, "usage");
    td_jw_i64(w, "prompt_tokens", r->request->n_prompt);
    td_jw_i64(w, "total_tokens", r->request->n_prompt + r->n_tokens);
    td_jw_i64(w, "completion_tokens", r->n_tokens);
}

/* ---- streams --------------------------------------------------------------------------------------------------------- */

static const char *stream_object(const struct td_reply *r)
{
    return r->request->chat ? "chat.completion.chunk" : "text_completion";
}

void td_reply_role_event(struct td_reply *r, struct td_buf *out)
{
    struct td_jw w;

    td_buf_adds(out, "data: ");
    td_jw_init(&w, out, false);
    write_head(&w, r, stream_object(r));
    td_jw_arr(&w, "choices");
    td_jw_obj(&w, NULL);
    td_jw_i64(&w, "index", 0);
    td_jw_obj(&w, "delta");
    td_jw_cstr(&w, "role", "assistant");
    td_jw_cstr(&w, "content", "");
    td_jw_end(&w);
    td_jw_null(&w, "logprobs");
    td_jw_null(&w, "finish_reason");
    td_jw_end(&w);
    td_jw_end(&w);
    write_prompt_ids(&w, r, true);
    td_jw_null(&w, "prompt_text");
    td_jw_end(&w);
    td_buf_adds(out, "\n\n");
}

void td_reply_token_event(struct td_reply *r, const struct td_token *token, enum td_finish finish, struct td_buf *out)
{
    struct td_buf text = TD_BUF_INIT(MAX_EVENT);
    bool chat = r->request->chat, is_first = r->n_tokens == 0;
    int n = token ? 1 : 0;
    struct td_jw w;

    if (token)
        add_text(r, token, &text);
    r->n_tokens += n;
    td_buf_adds(out, "data: ");
    td_jw_init(&w, out, false);
    write_head(&w, r, stream_object(r));
    td_jw_arr(&w, "choices");
    td_jw_obj(&w, NULL);
    td_jw_i64(&w, "index", 0);
    if (chat)
        td_jw_obj(&w, "delta");
    td_jw_str(&w, chat ? "content" : "text", td_buf_str(&text), text.len);
    if (chat)
        td_jw_end(&w);
    write_logprobs(&w, r, token, n);
    write_finish(&w, finish);
    if (!chat)
        write_prompt_ids(&w, r, is_first);
    write_token_ids(&w, r, token, n);
    td_jw_end(&w);
    td_jw_end(&w);
    if (r->request->continuous_usage) {
        write_usage(&w, r);
        td_jw_end(&w);
    }
    if (finish && !r->request->include_usage)
        td_jw_cstr(&w, "system_fingerprint", r->fingerprint);
    td_jw_end(&w);
    td_buf_adds(out, "\n\n");
    td_buf_release(&text);
}

void td_reply_usage_event(struct td_reply *r, struct td_buf *out)
{
    struct td_jw w;

    td_buf_adds(out, "data: ");
    td_jw_init(&w, out, false);
    write_head(&w, r, stream_object(r));
    td_jw_arr(&w, "choices");
    td_jw_end(&w);
    write_usage(&w, r);
    td_jw_end(&w);
    td_jw_cstr(&w, "system_fingerprint", r->fingerprint);
    td_jw_end(&w);
    td_buf_adds(out, "\n\n");
}

void td_reply_error_event(const struct td_server_error *e, struct td_buf *out)
{
    td_buf_adds(out, "data: ");
    td_server_error_render(e, out);
    td_buf_adds(out, "\n\n");
}

/* ---- answers that are not streamed ----------------------------------------------------------- */

static bool any_nan(const struct td_token *tokens, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < tokens[i].n_top; k++)
            if (isnan(tokens[i].top_logprob[k]))
                return true;
    return false;
}

static void write_message(struct td_jw *w, const struct td_buf *text)
{
    td_jw_obj(w, "message");
    td_jw_cstr(w, "role", "assistant");
    td_jw_str(w, "content", td_buf_str(text), text->len);
    td_jw_null(w, "refusal");
    td_jw_null(w, "annotations");
    td_jw_null(w, "audio");
    td_jw_null(w, "function_call");
    td_jw_arr(w, "tool_calls");
    td_jw_end(w);
    td_jw_null(w, "reasoning");
    td_jw_end(w);
}

static void write_prompt_entry(struct td_jw *w, const struct td_reply *r, const struct td_token *t, int k, struct td_buf *text)
{
    const char *bytes;
    char name[16];
    size_t n;

    snprintf(name, sizeof name, "%d", t->top_id[k]);
    td_jw_obj(w, name);
    td_jw_num(w, "logprob", t->top_logprob[k] > -9999.0f ? (double)t->top_logprob[k] : -9999.0);
    td_jw_i64(w, "rank", k == 0 ? t->rank : k + (t->rank <= k));
    bytes = td_tokenizer_bytes(r->tokenizer, t->top_id[k], &n);
    td_buf_clear(text);
    td_utf8_clean(bytes, n, text);
    td_jw_str(w, "decoded_token", td_buf_str(text), text->len);
    td_jw_end(w);
}

/* Members of each as in a Python dict: the token itself, then the likeliest. */
static void write_prompt_logprobs(struct td_jw *w, const struct td_reply *r)
{
    struct td_buf text = TD_BUF_INIT(MAX_EVENT);

    if (!r->prompt_scores) {
        td_jw_null(w, "prompt_logprobs");
        return;
    }
    td_jw_arr(w, "prompt_logprobs");
    td_jw_null(w, NULL);
    for (int i = 1; i < r->request->n_prompt; i++) {
        const struct td_token *t = &r->prompt_scores[i];
        td_jw_obj(w, NULL);
        for (int k = 0; k < t->n_top; k++)
            write_prompt_entry(w, r, t, k, &text);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_buf_release(&text);
}

static void write_choice(struct td_jw *w, struct td_reply *r, const struct td_token *tokens, int n, enum td_finish finish)
{
    struct td_buf text = TD_BUF_INIT(MAX_EVENT);

    for (int i = 0; i < n; i++)
        add_text(r, &tokens[i], &text);
    td_jw_obj(w, NULL);
    td_jw_i64(w, "index", 0);
    if (r->request->chat)
        write_message(w, &text);
    else
        td_jw_str(w, "text", td_buf_str(&text), text.len);
    write_logprobs(w, r, tokens, n);
    write_finish(w, finish);
    write_token_ids(w, r, tokens, n);
    if (!r->request->chat) {
        write_prompt_logprobs(w, r);
        write_prompt_ids(w, r, true);
        td_jw_null(w, "routed_experts");
    }
    td_jw_end(w);
    td_buf_release(&text);
}

bool td_reply_complete(struct td_reply *r, const struct td_token *tokens, int n,
                       enum td_finish finish, struct td_buf *out, struct td_server_error *e)
{
    struct td_jw w;

    if ((r->request->n_logprobs >= 0 && any_nan(tokens, n)) ||
        (r->prompt_scores && any_nan(r->prompt_scores, r->request->n_prompt)))
        return td_server_error_set(e, 400, NULL,
                                   "Out of range float values are not JSON compliant: nan");
    r->n_tokens = n;
    td_jw_init(&w, out, false);
    write_head(&w, r, r->request->chat ? "chat.completion" : "text_completion");
    td_jw_arr(&w, "choices");
    write_choice(&w, r, tokens, n, finish);
    td_jw_end(&w);
    td_jw_null(&w, "service_tier");
    td_jw_cstr(&w, "system_fingerprint", r->fingerprint);
    write_usage(&w, r);
    td_jw_null(&w, "prompt_tokens_details");
    td_jw_end(&w);
    if (r->request->chat) {
        td_jw_null(&w, "prompt_logprobs");
        write_prompt_ids(&w, r, true);
    }
    td_jw_null(&w, "kv_transfer_params");
    td_jw_null(&w, "metrics");
    td_jw_end(&w);
    return true;
}
