/* answer.c - what servers answer, in every dialect that is known.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

void td_answer_init(struct td_answer *a)
{
    *a = (struct td_answer){.usage = {-1, -1}};
    td_buf_init(&a->text, TD_ANSWER_MAX_TEXT);
}

void td_answer_release(struct td_answer *a)
{
    size_t i;

    for (i = 0; i < a->n_tokens; i++)
        free(a->tokens[i].text);
    free(a->tokens);
    free(a->alts);
    free(a->events);
    free(a->prompt_ids);
    td_buf_release(&a->text);
    free(a->finish_reason);
    free(a->fingerprint);
    free(a->id);
    free(a->error);
    free(a->error_kind);
    *a = (struct td_answer){.usage = {-1, -1}};
}

/* A sentence for people: one line, printable, UTF-8. */
static char *sentence(const char *s)
{
    struct td_buf b = TD_BUF_INIT(4096);
    char *p, *out;

    td_utf8_clean(s, strlen(s), &b);
    out = td_buf_detach(&b, NULL);
    for (p = out; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
    return out ? out : strdup("(no message)");
}

void td_answer_fail(struct td_answer *a, const char *kind, const char *fmt, ...)
{
    char msg[1024];
    va_list ap;

    if (a->error_kind)
        return;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    a->error = sentence(msg);
    a->error_kind = strdup(kind);
}

/* Room for one more element; false sets limit. */
static bool grow(struct td_answer *a, void *array, size_t n, size_t *cap, size_t elem, size_t max)
{
    void **p = array, *q;
    size_t want = *cap ? *cap * 2 : 64;

    if (n < *cap)
        return true;
    if (n >= max || !(q = realloc(*p, want * elem))) {
        a->limit = true;
        return false;
    }
    *p = q;
    *cap = want;
    return true;
}

static void keep_str(char **dst, const cJSON *v)
{
    if (!*dst && cJSON_IsString(v) && *v->valuestring)
        *dst = strdup(v->valuestring);
}

static int32_t id_of(const cJSON *v)
{
    int64_t id = td_json_i64(v, -1);

    return id > INT32_MAX ? INT32_MAX : id < INT32_MIN ? INT32_MIN : (int32_t)id;
}

/* "token_id:123" (vLLM's return_tokens_as_token_ids) -> 123, else -1 */
static int32_t id_of_text(const char *s)
{
    char *end;
    long v;

    if (!s || strncmp(s, "token_id:", 9))
        return -1;
    v = strtol(s + 9, &end, 10);
    return *end || end == s + 9 || v < 0 || v > INT32_MAX ? -1 : (int32_t)v;
}

/* ---- one token --------------------------------------------------------------------------------------------------- */

static struct td_answer_token *add_token(struct td_answer *a, int32_t id)
{
    struct td_answer_token *t;

    if (!grow(a, &a->tokens, a->n_tokens, &a->cap_tokens, sizeof *a->tokens, TD_ANSWER_MAX_TOKENS))
        return NULL;
    t = &a->tokens[a->n_tokens++];
    *t = (struct td_answer_token){.id = id, .logprob = NAN, .first_alt = (uint32_t)a->n_alts};
    return t;
}

static void set_logprob(struct td_answer_token *t, const cJSON *v)
{
    if (!v)
        return;
    t->has_logprob = true;
    t->logprob = (float)td_json_num(v, NAN); /* null and words are NaN */
}

static void set_text(struct td_answer_token *t, const cJSON *v)
{
    int32_t id;

    if (!cJSON_IsString(v))
        return;
    id = id_of_text(v->valuestring);
    if (id >= 0 && t->id < 0)
        t->id = id;
    else if (id < 0 && !t->text)
        t->text = strdup(v->valuestring);
}

static void add_alt(struct td_answer *a, struct td_answer_token *t, int32_t id, const cJSON *logprob)
{
    if (t->n_alts >= TD_ANSWER_MAX_ALTS ||
        !grow(a, &a->alts, a->n_alts, &a->cap_alts, sizeof *a->alts, (size_t)TD_ANSWER_MAX_TOKENS * 8))
        return;
    a->alts[a->n_alts++] = (struct td_alt){id, (float)td_json_num(logprob, NAN)};
    t->n_alts++;
}

static bool better(const struct td_alt *x, const struct td_alt *y)
{
    return isnan(y->logprob) ? !isnan(x->logprob) : x->logprob > y->logprob;
}

/* Best first, NaN last; equal ones keep the server's order. Rows are short. */
static void sort_alts(struct td_answer *a, const struct td_answer_token *t)
{
    struct td_alt *row = a->alts + t->first_alt;
    uint32_t i, j;

    for (i = 1; i < t->n_alts; i++) {
        struct td_alt x = row[i];

        for (j = i; j && better(&x, &row[j - 1]); j--)
            row[j] = row[j - 1];
        row[j] = x;
    }
}

/* Alternatives of chat style and of llama.cpp: [{"id"?, "token", "logprob"}, …] */
static void alts_of_list(struct td_answer *a, struct td_answer_token *t, const cJSON *list)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, list) {
        int32_t id = td_json_get(e, "id") ? id_of(td_json_get(e, "id")) : id_of_text(td_json_get_str(e, "token", NULL));
        const char *text = td_json_get_str(e, "token", NULL);

        if (id < 0 && text && t->text && !strcmp(text, t->text))
            id = t->id;
        add_alt(a, t, id, td_json_get(e, "logprob"));
    }
}

/* Alternatives of completions style: {"token_id:5": -0.1, " Paris": null, …} */
static void alts_of_dict(struct td_answer *a, struct td_answer_token *t, const cJSON *dict)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, dict) {
        int32_t id = id_of_text(e->string);

        if (id < 0 && t->text && e->string && !strcmp(e->string, t->text))
            id = t->id;
        add_alt(a, t, id, e);
    }
}

/* ---- the tokens of one event -------------------------------------------------------------------------------------- */

struct parts {
    const cJSON *ids;          /* [int] or NULL */
    const cJSON *content;      /* chat style and llama.cpp: [{token, logprob, top_logprobs, id?}] or NULL */
    const cJSON *tokens, *logprobs, *top; /* completions style, or NULL */
    bool any_text;
};

static void step(const cJSON **v)
{
    *v = *v ? (*v)->next : NULL;
}

/* at: the members of the arrays that belong to this token; NULL past their ends. */
static void fill_token(struct td_answer *a, struct td_answer_token *t, const struct parts *at)
{
    const cJSON *e = at->content;

    if (e) {
        if (t->id < 0 && td_json_get(e, "id"))
            t->id = id_of(td_json_get(e, "id"));
        set_text(t, td_json_get(e, "token"));
        set_logprob(t, td_json_get(e, "logprob"));
        alts_of_list(a, t, td_json_get(e, "top_logprobs"));
    } else {
        set_text(t, at->tokens);
        set_logprob(t, at->logprobs);
        alts_of_dict(a, t, at->top);
    }
    sort_alts(a, t);
    a->ids_missing += t->id < 0;
    a->logprobs_missing += !t->has_logprob;
}

static const cJSON *first(const cJSON *array)
{
    return array ? array->child : NULL;
}

static void add_event(struct td_answer *a, const struct parts *p, int64_t t_ns)
{
    struct parts at = {first(p->ids), first(p->content), first(p->tokens), first(p->logprobs), first(p->top), false};
    int n_lp = cJSON_GetArraySize(p->content ? p->content : p->tokens), n = cJSON_GetArraySize(p->ids), i, done = 0;

    if (!n)
        n = n_lp ? n_lp : p->any_text;
    for (i = 0; i < n; i++) {
        struct td_answer_token *t = add_token(a, at.ids ? id_of(at.ids) : -1);

        if (!t)
            break;
        fill_token(a, t, &at);
        done++;
        step(&at.ids), step(&at.content), step(&at.tokens), step(&at.logprobs), step(&at.top);
    }
    if (done && grow(a, &a->events, a->n_events, &a->cap_events, sizeof *a->events, TD_ANSWER_MAX_TOKENS))
        a->events[a->n_events++] = (struct td_token_event){t_ns, done};
}

static bool add_text(struct td_answer *a, const cJSON *v)
{
    size_t before = a->text.len;

    if (td_json_bytes(v, &a->text) == TD_ELIMIT)
        a->limit = true;
    return a->text.len > before;
}

static void take_prompt_ids(struct td_answer *a, const cJSON *ids)
{
    const cJSON *e;

    if (a->n_prompt_ids || !cJSON_IsArray(ids))
        return;
    cJSON_ArrayForEach(e, ids)
        if (grow(a, &a->prompt_ids, a->n_prompt_ids, &a->cap_prompt_ids, sizeof *a->prompt_ids, TD_ANSWER_MAX_TOKENS))
            a->prompt_ids[a->n_prompt_ids++] = id_of(e);
}

static const cJSON *array_or_null(const cJSON *v)
{
    return cJSON_IsArray(v) ? v : NULL;
}

/* OpenAI and vLLM: choices[0] of a completion or a chat, streamed or not. */
static void take_choice(struct td_answer *a, const cJSON *c, int64_t t_ns)
{
    const cJSON *msg = td_json_get(c, "delta"), *lp = td_json_get(c, "logprobs"), *think;
    struct parts p = {.ids = array_or_null(td_json_get(c, "token_ids"))};
    size_t before = a->text.len;

    if (!msg)
        msg = td_json_get(c, "message");
    think = td_json_get(msg, "reasoning_content");
    if (!think)
        think = td_json_get(msg, "reasoning");
    p.any_text = add_text(a, td_json_get(c, "text"));
    p.any_text |= add_text(a, think);
    a->reasoning_bytes += msg && cJSON_IsString(think) ? (int64_t)(a->text.len - before) : 0;
    p.any_text |= add_text(a, td_json_get(msg, "content"));
    a->tool_calls += cJSON_GetArraySize(td_json_get(msg, "tool_calls"));
    p.any_text |= cJSON_GetArraySize(td_json_get(msg, "tool_calls")) > 0;
    p.content = array_or_null(td_json_get(lp, "content"));
    p.tokens = array_or_null(td_json_get(lp, "tokens"));
    p.logprobs = array_or_null(td_json_get(lp, "token_logprobs"));
    p.top = array_or_null(td_json_get(lp, "top_logprobs"));
    add_event(a, &p, t_ns);
    take_prompt_ids(a, td_json_get(c, "prompt_token_ids"));
    keep_str(&a->finish_reason, td_json_get(c, "finish_reason"));
}

/* llama.cpp's own /completion. */
static void take_llama(struct td_answer *a, const cJSON *ev, int64_t t_ns)
{
    struct parts p = {.ids = array_or_null(td_json_get(ev, "tokens")),
                      .content = array_or_null(td_json_get(ev, "completion_probabilities"))};
    const char *type = td_json_get_str(ev, "stop_type", NULL);
    bool stop = td_json_get_bool(ev, "stop", false);

    p.any_text = add_text(a, td_json_get(ev, "content"));
    add_event(a, &p, t_ns);
    if (!stop)
        return;
    a->done = true;
    a->usage.prompt_tokens = td_json_get_i64(ev, "tokens_evaluated", -1);
    a->usage.completion_tokens = td_json_get_i64(ev, "tokens_predicted", -1);
    if (!a->finish_reason && type)
        a->finish_reason = strdup(!strcmp(type, "limit") ? "length" : strcmp(type, "none") ? "stop" : "none");
}

static void take_usage(struct td_answer *a, const cJSON *u)
{
    if (!cJSON_IsObject(u))
        return;
    a->usage.prompt_tokens = td_json_get_i64(u, "prompt_tokens", a->usage.prompt_tokens);
    a->usage.completion_tokens = td_json_get_i64(u, "completion_tokens", a->usage.completion_tokens);
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

/* The message of an error object in any known form into out; false: v is none. */
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

/* What an error body says: a known form, {"message"}, or its first bytes. */
static void reason_of(const char *body, size_t n, char *out, size_t out_size)
{
    cJSON *v = n ? td_json_parse(body, n, NULL) : NULL;

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

    reason_of(data, n, msg, sizeof msg);
    a->shaped = true;
    td_answer_fail(a, "stream", "the server reported an error inside the stream: %s", msg);
}

void td_answer_http_error(struct td_answer *a, int status, const char *location, const char *body, size_t n)
{
    char msg[600];

    reason_of(body, n, msg, sizeof msg);
    if (status < 400)
        td_answer_fail(a, "http", "HTTP %d: redirected to %s; give that address as --server", status,
                       *location ? location : "nowhere");
    else
        td_answer_fail(a, "http", "HTTP %d: %s", status, msg);
}

/* ---- one event, one body ------------------------------------------------------------------------------------------ */

static void take_object(struct td_answer *a, const cJSON *ev, int64_t t_ns)
{
    const cJSON *choices = td_json_get(ev, "choices"), *c;

    keep_str(&a->id, td_json_get(ev, "id"));
    keep_str(&a->fingerprint, td_json_get(ev, "system_fingerprint"));
    take_usage(a, td_json_get(ev, "usage"));
    take_prompt_ids(a, td_json_get(ev, "prompt_token_ids"));
    if (cJSON_IsArray(choices)) {
        a->shaped = true;
        cJSON_ArrayForEach(c, choices) {
            if (td_json_get_i64(c, "index", 0) == 0)
                take_choice(a, c, t_ns);
            else
                a->other_choices++;
        }
    } else if (cJSON_IsString(td_json_get(ev, "content"))) {
        a->shaped = true;
        take_llama(a, ev, t_ns);
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

void td_answer_take(struct td_answer *a, const char *data, size_t n, int64_t t_ns, bool streamed)
{
    struct td_error err = {0};
    char msg[600];
    cJSON *ev;
    bool known = a->shaped;

    while (n && (data[n - 1] == ' ' || data[n - 1] == '\r' || data[n - 1] == '\n'))
        n--;
    if (streamed && n == 6 && !memcmp(data, "[DONE]", 6)) {
        a->done = true;
        return;
    }
    a->bad_utf8 |= !is_utf8(data, n);
    ev = td_json_parse(data, n, &err);
    a->shaped = false;
    if (!ev) {
        a->bad_events++;
        td_answer_fail(a, "parse", "%s after %zu tokens is no JSON: %s", streamed ? "an event" : "the answer", a->n_tokens,
                       n ? err.msg : "it is empty");
    } else if (error_message(ev, msg, sizeof msg)) {
        a->shaped = true;
        td_answer_fail(a, "stream", "the server reported an error %s: %s", streamed ? "inside the stream" : "with status 200",
                       msg);
    } else {
        take_object(a, ev, t_ns);
        if (!a->shaped && !cJSON_IsObject(ev)) {
            a->bad_events++;
            td_answer_fail(a, "parse", "%s after %zu tokens is JSON, but no object: \"%.60s\"",
                           streamed ? "an event" : "the answer", a->n_tokens, data);
        }
    }
    a->shaped |= known;
    cJSON_Delete(ev);
}

/* ---- into the exchange -------------------------------------------------------------------------------------------- */

static bool any_nan(const struct td_answer *a)
{
    size_t i;

    for (i = 0; i < a->n_tokens; i++)
        if (a->tokens[i].has_logprob && isnan(a->tokens[i].logprob))
            return true;
    return false;
}

static int finish_top(const struct td_answer *a, struct td_exchange *x)
{
    size_t n = a->n_tokens, i;
    uint32_t k = 0, j;

    for (i = 0; i < n; i++)
        k = a->tokens[i].n_alts > k ? a->tokens[i].n_alts : k;
    if (!k)
        return TD_OK;
    if (k > (size_t)TD_ANSWER_MAX_TOKENS * 8 / n) /* the rectangle stays bounded */
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
    /* a token without any logprob entry must not look like a NaN: then there are none, unless a real NaN was seen */
    bool lps = n && a->logprobs_missing < (int64_t)n && (!a->logprobs_missing || any_nan(a));

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
            x->logprobs[i] = a->tokens[i].logprob;
        if (texts) {
            x->token_text[i] = a->tokens[i].text ? a->tokens[i].text : strdup("");
            a->tokens[i].text = NULL;
        }
    }
    x->ids_complete = ids && !a->ids_missing && (a->usage.completion_tokens < 0 || a->usage.completion_tokens == (int64_t)n);
    return finish_top(a, x);
}

int td_answer_finish(struct td_answer *a, struct td_exchange *x)
{
    x->text = malloc(a->text.len + 1);
    if (!x->text)
        return TD_ENOMEM;
    memcpy(x->text, td_buf_str(&a->text), a->text.len);
    x->text[a->text.len] = '\0';
    x->text_len = a->text.len;
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
