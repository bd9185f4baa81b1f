/* answer.c - read what servers answer, in every known dialect.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hidden.h"
#include "common/json.h"
#include "common/out_of_memory.h"
#include "wire/answer_event.h"
#include "wire/answer_scores.h"
#include "wire/answer_sglang.h"

static void set_str_once(char **dst, const cJSON *v)
{
    if (!*dst && cJSON_IsString(v) && *v->valuestring)
        *dst = td_strdup(v->valuestring);
}

static const cJSON *array_or_null(const cJSON *v)
{
    return cJSON_IsArray(v) ? v : NULL;
}

/* Read choices[0] of OpenAI and vLLM: of a completion, a chat or vLLM's generate, streamed or not.
 * llama.cpp's completions have the logprobs of a chat, and its chat counts tokens in `timings` when
 * asked for timings_per_token. */
static void read_choice(struct td_answer *a, const cJSON *ev, const cJSON *c, int64_t t_ns)
{
    const cJSON *msg = td_json_get(c, "delta"), *lp = td_json_get(c, "logprobs"), *think;
    struct td_answer_parts p = {.ids = array_or_null(td_json_get(c, "token_ids"))};
    size_t before = a->text.len;

    if (!msg)
        msg = td_json_get(c, "message");
    think = td_json_get(msg, "reasoning_content");
    if (!think)
        think = td_json_get(msg, "reasoning");
    p.any_text = td_answer_add_text(a, td_json_get(c, "text"));
    p.any_text |= td_answer_add_text(a, think);
    a->reasoning_bytes += msg && cJSON_IsString(think) ? (int64_t)(a->text.len - before) : 0;
    p.any_text |= td_answer_add_text(a, td_json_get(msg, "content"));
    a->tool_calls += cJSON_GetArraySize(td_json_get(msg, "tool_calls"));
    p.any_text |= cJSON_GetArraySize(td_json_get(msg, "tool_calls")) > 0;
    p.content = array_or_null(td_json_get(lp, "content"));
    p.position = td_answer_count(td_json_get(ev, "timings"), "predicted_n", 0);
    p.tokens = array_or_null(td_json_get(lp, "tokens"));
    p.logprobs = array_or_null(td_json_get(lp, "token_logprobs"));
    p.top = array_or_null(td_json_get(lp, "top_logprobs"));
    td_answer_add_event(a, &p, t_ns);
    td_answer_prompt_ids(a, td_json_get(c, "prompt_token_ids"));
    td_answer_read_scores(a, td_json_get(c, "prompt_logprobs"));
    set_str_once(&a->finish_reason, td_json_get(c, "finish_reason"));
}

/* Read llama.cpp's own /completion. */
static void read_llamacpp(struct td_answer *a, const cJSON *ev, int64_t t_ns)
{
    struct td_answer_parts p = {.ids = array_or_null(td_json_get(ev, "tokens")),
                      .content = array_or_null(td_json_get(ev, "completion_probabilities")),
                      .position = td_answer_count(ev, "tokens_predicted", 0)};
    const char *type = td_json_get_str(ev, "stop_type", NULL);
    bool stop = td_json_get_bool(ev, "stop", false);

    p.any_text = td_answer_add_text(a, td_json_get(ev, "content"));
    td_answer_add_event(a, &p, t_ns);
    if (!stop)
        return;
    a->done = true;
    a->usage.prompt_tokens = td_answer_count(ev, "tokens_evaluated", -1);
    a->usage.completion_tokens = td_answer_count(ev, "tokens_predicted", -1);
    if (!a->finish_reason && type)
        a->finish_reason = td_strdup(!strcmp(type, "limit") ? "length" : strcmp(type, "none") ? "stop" : "none");
}

static void read_usage(struct td_answer *a, const cJSON *u)
{
    if (!cJSON_IsObject(u))
        return;
    a->usage.prompt_tokens = td_answer_count(u, "prompt_tokens", a->usage.prompt_tokens);
    a->usage.completion_tokens = td_answer_count(u, "completion_tokens", a->usage.completion_tokens);
}

/* The last event that tells counts: a server tells them with each, or at the end. */
static void read_computed(struct td_answer *a, const cJSON *ev)
{
    const cJSON *t = td_json_get(ev, "timings"), *details = td_json_get(td_json_get(ev, "usage"), "prompt_tokens_details");

    a->computed.cached = td_answer_count(details, "cached_tokens", a->computed.cached);
    a->computed.cached = td_answer_count(t, "cache_n", a->computed.cached);
    a->computed.prompt = td_answer_count(t, "prompt_n", a->computed.prompt);
    a->computed.answer = td_answer_count(t, "predicted_n", a->computed.answer);
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

/* Copy the message of an error object in any known form. False: v is no error object. */
static bool error_message(const cJSON *v, char *out, size_t n)
{
    const cJSON *e = td_json_get(v, "error"), *detail = td_json_get(v, "detail");
    const char *msg = NULL;
    char *printed;

    if (cJSON_IsString(e))
        msg = e->valuestring;
    else if (cJSON_IsObject(e))
        msg = td_json_get_str(e, "message", td_json_get_str(e, "type", "no message"));
    else if (!strcmp(td_json_get_str(v, "object", ""), "error"))
        msg = td_json_get_str(v, "message", "no message");
    else if (cJSON_IsString(detail))
        msg = detail->valuestring;
    else if (cJSON_IsArray(detail)) /* FastAPI: [{"loc":[…],"msg":"field required"}] */
        msg = td_json_get_str(detail->child, "msg", "validation error");
    if (!msg && e && !cJSON_IsNull(e) && !cJSON_IsFalse(e)) {
        printed = cJSON_PrintUnformatted(e);
        snprintf(out, n, "%s", printed ? printed : "error");
        cJSON_free(printed);
        return true;
    }
    if (msg)
        snprintf(out, n, "%s", msg);
    return msg != NULL;
}

#define MAX_REASON ((size_t)1 << 20) /* of a longer body the first bytes are the reason */

/* The reason that an error body gives: a known form, {"message"}, or its first bytes. */
static void error_reason(const char *body, size_t n, char *out, size_t out_size)
{
    cJSON *v = n && n <= MAX_REASON ? td_json_parse(body, n, NULL) : NULL;

    if (!v || !error_message(v, out, out_size)) {
        if (v && td_json_get_str(v, "message", NULL))
            snprintf(out, out_size, "%s", td_json_get_str(v, "message", ""));
        else
            snprintf(out, out_size, "%.*s", !n || n > 300 ? 300 : (int)n, n ? body : "no body");
    }
    cJSON_Delete(v);
}

void td_answer_stream_error(struct td_answer *a, const char *data, size_t n)
{
    char msg[600];

    error_reason(data, n, msg, sizeof msg);
    a->shaped = true;
    td_answer_fail(a, "stream", "the server reported an error inside the stream: %s", msg);
}

void td_answer_http_error(struct td_answer *a, int status, const char *location, const char *body, size_t n)
{
    char msg[600];

    error_reason(body, n, msg, sizeof msg);
    if (status < 300)
        td_answer_fail(a, "http", "HTTP %d: %s, which is no answer", status,
                       status == 101 ? "the server changes to another protocol" : "no body");
    else if (status < 400 && status != 304)
        td_answer_fail(a, "http", "HTTP %d: redirected to %s; give that address as --server", status,
                       *location ? location : "nowhere");
    else
        td_answer_fail(a, "http", "HTTP %d: %s", status, msg);
}

/* ---- one event, one body ------------------------------------------------------------------------------------------ */

static void read_choices(struct td_answer *a, const cJSON *ev, const cJSON *choices, int64_t t_ns)
{
    const cJSON *c;
    bool seen = false;

    cJSON_ArrayForEach(c, choices) {
        if (!cJSON_IsObject(c))
            continue;
        if (td_json_get_i64(c, "index", 0) != 0) {
            a->other_choices++;
            continue;
        }
        if (seen)
            td_answer_fail(a, "parse", "an event after %zu tokens has choice 0 twice", a->n_tokens);
        else
            read_choice(a, ev, c, t_ns);
        seen = a->answered = true;
    }
}

static void read_object(struct td_answer *a, const cJSON *ev, int64_t t_ns)
{
    const cJSON *choices = td_json_get(ev, "choices");

    set_str_once(&a->id, td_json_get(ev, "id"));
    set_str_once(&a->id, td_json_get(ev, "request_id"));
    set_str_once(&a->fingerprint, td_json_get(ev, "system_fingerprint"));
    set_str_once(&a->model, td_json_get(ev, "model"));
    read_usage(a, td_json_get(ev, "usage"));
    read_computed(a, ev);
    td_answer_prompt_ids(a, td_json_get(ev, "prompt_token_ids"));
    td_answer_read_scores(a, td_json_get(ev, "prompt_logprobs")); /* of a chat, and of vLLM's generate */
    if (cJSON_IsArray(choices)) {
        a->shaped = true;
        read_choices(a, ev, choices, t_ns);
    } else if (cJSON_IsObject(td_json_get(ev, "meta_info"))) {
        a->shaped = a->answered = true;
        td_answer_read_sglang(a, ev, t_ns);
    } else if (cJSON_IsString(td_json_get(ev, "content"))) {
        a->shaped = a->answered = true;
        read_llamacpp(a, ev, t_ns);
    }
}

static bool is_utf8(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        int len = td_utf8_seq(s + i, n - i);

        if (len <= 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

/* Are there at most TD_ANSWER_MAX_VALUES values in a JSON text? A value may take two bytes in the
 * text, and takes eighty once it is parsed. */
static bool has_room_for_values(const char *data, size_t n)
{
    size_t i, values = 1;
    bool in_string = false;

    for (i = 0; n > TD_ANSWER_MAX_VALUES && i < n; i++) {
        if (in_string && data[i] == '\\')
            i++;
        else if (data[i] == '"')
            in_string = !in_string;
        else
            values += !in_string && (data[i] == ',' || data[i] == '[' || data[i] == '{');
    }
    return values <= TD_ANSWER_MAX_VALUES;
}

void td_answer_read(struct td_answer *a, const char *data, size_t n, int64_t t_ns, bool streamed)
{
    struct td_error err = {0};
    char msg[600];
    cJSON *ev;
    bool known = a->shaped;

    while (n && (data[n - 1] == ' ' || data[n - 1] == '\r' || data[n - 1] == '\n'))
        n--;
    if (streamed && n == 6 && !memcmp(data, "[DONE]", 6)) {
        a->done = a->end_mark = true;
        return;
    }
    if (!has_room_for_values(data, n)) {
        a->shaped = true;
        td_answer_fail(a, "parse", "%s after %zu tokens has more than %zu JSON values",
                       streamed ? "an event" : "the answer", a->n_tokens, TD_ANSWER_MAX_VALUES);
        return;
    }
    a->bad_utf8 |= !is_utf8(data, n);
    ev = td_json_parse(data, n, &err);
    a->shaped = false;
    if (!ev && err.code == TD_ENOMEM) {
        td_answer_fail(a, TD_ERROR_UNSEEN, "this machine is out of memory for the answer");
    } else if (!ev) {
        a->bad_events++;
        td_answer_fail(a, "parse", "%s after %zu tokens is no JSON: %s", streamed ? "an event" : "the answer", a->n_tokens,
                       n ? err.msg : "it is empty");
    } else if (error_message(ev, msg, sizeof msg)) {
        a->shaped = true;
        td_answer_fail(a, "stream", "the server reported an error %s: %s", streamed ? "inside the stream" : "with status 200",
                       msg);
    } else {
        read_object(a, ev, t_ns);
        if (!a->shaped && !cJSON_IsObject(ev)) {
            a->bad_events++;
            td_hidden_cut(msg, 61, data, n);
            td_answer_fail(a, "parse", "%s after %zu tokens is JSON, but no object: \"%s\"",
                           streamed ? "an event" : "the answer", a->n_tokens, msg);
        }
    }
    a->shaped |= known;
    cJSON_Delete(ev);
}

/* ---- into the exchange -------------------------------------------------------------------------------------------- */

static int finish_top(const struct td_answer *a, struct td_exchange *x)
{
    size_t n = a->n_tokens, i;
    uint32_t k = 0, j;

    for (i = 0; i < n; i++)
        k = a->tokens[i].n_alts > k ? a->tokens[i].n_alts : k;
    if (!k)
        return TD_OK;
    if (k > (size_t)TD_ANSWER_MAX_TOKENS * 8 / n) /* n * k stays bounded */
        k = (uint32_t)((size_t)TD_ANSWER_MAX_TOKENS * 8 / n);
    x->top = malloc(n * k * sizeof *x->top);
    if (!x->top)
        return TD_ENOMEM;
    x->top_k = (int32_t)k;
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++)
            x->top[i * k + j] = j < a->tokens[i].n_alts ? a->alts[a->tokens[i].first_alt + j]
                                                        : (struct td_alt){-1, -INFINITY};
    return TD_OK;
}

static int finish_tokens(struct td_answer *a, struct td_exchange *x)
{
    size_t n = a->n_tokens, i, texts = 0;
    bool ids = n && a->ids_missing < (int64_t)n;
    bool lps = n && a->logprobs_missing < (int64_t)n;

    for (i = 0; i < n; i++)
        texts += a->tokens[i].text != NULL;
    x->n_tokens = (int32_t)n;
    x->token_ids = ids ? malloc(n * sizeof *x->token_ids) : NULL;
    x->logprobs = lps ? malloc(n * sizeof *x->logprobs) : NULL;
    x->token_text = texts ? calloc(n, sizeof *x->token_text) : NULL;
    if ((ids && !x->token_ids) || (lps && !x->logprobs) || (texts && !x->token_text))
        return TD_ENOMEM;
    for (i = 0; i < n; i++) {
        if (ids)
            x->token_ids[i] = a->tokens[i].id;
        if (lps)
            /* unknown: -inf, for NaN is a finding */
            x->logprobs[i] = a->tokens[i].has_logprob ? a->tokens[i].logprob : -INFINITY;
        if (texts) {
            x->token_text[i] = a->tokens[i].text ? a->tokens[i].text : td_strdup("");
            a->tokens[i].text = NULL;
        }
    }
    x->ids_complete = ids && !a->ids_missing && (a->usage.completion_tokens < 0 || a->usage.completion_tokens == (int64_t)n);
    return finish_top(a, x);
}

int td_answer_finish(struct td_answer *a, struct td_exchange *x)
{
    td_answer_add_hidden_tail(a);
    x->text = td_buf_detach(&a->text, &x->text_len);
    if (!x->text)
        return TD_ENOMEM;
    x->finish_reason = a->finish_reason;
    x->prompt_ids = a->prompt_ids;
    x->n_prompt_ids = (int32_t)a->n_prompt_ids;
    x->events = a->events;
    x->n_events = (int32_t)a->n_events;
    x->usage = a->usage;
    a->finish_reason = NULL;
    a->prompt_ids = NULL;
    a->events = NULL;
    a->n_prompt_ids = a->n_events = a->cap_prompt_ids = a->cap_events = 0;
    return finish_tokens(a, x);
}
