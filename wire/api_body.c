/* api_body.c - write the request body of each dialect, without fields that the server refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/api_body.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"

#define SALT_MARK "\"cache_salt\":\"td-"
#define SALT_DIGITS 16

static const char *const FIELDS[] = {"return_token_ids", "return_tokens_as_token_ids", "cache_salt",
                                     "stream_options", "timings_per_token"};
_Static_assert(sizeof FIELDS / sizeof *FIELDS == TD_N_FIELDS, "a name for each field");

const char *td_api_field_name(enum td_api_field f)
{
    return FIELDS[f];
}

static void put_text(struct td_jw *w, const char *key, char *text)
{
    cJSON v = {.type = cJSON_String, .valuestring = text};

    td_jw_value(w, key, &v);
}

static void put_prompt(struct td_jw *w, const struct td_prompt *p)
{
    if (p->messages)
        td_jw_value(w, "messages", p->messages);
    else if (p->ids)
        td_jw_i32s(w, "prompt", p->ids, p->n_ids);
    else
        put_text(w, "prompt", p->text);
}

static void put_greedy(struct td_jw *w, const struct td_sampling *m)
{
    td_jw_num(w, "temperature", m->temperature);
    td_jw_num(w, "top_p", m->top_p);
    td_jw_num(w, "presence_penalty", 0);
    td_jw_num(w, "frequency_penalty", 0);
}

static void put_logprobs(struct td_jw *w, bool chat, int32_t k)
{
    if (k <= 0)
        return;
    if (chat) {
        td_jw_bool(w, "logprobs", true);
        td_jw_i64(w, "top_logprobs", k);
    } else {
        td_jw_i64(w, "logprobs", k);
    }
}

static bool sends_field(const struct td_api_server *s, enum td_api_field f)
{
    return !(s->without >> f & 1);
}

static void put_usage(struct td_jw *w, const struct td_api_server *s, const struct td_sampling *m)
{
    if (!m->stream || !sends_field(s, TD_FIELD_USAGE))
        return;
    td_jw_obj(w, FIELDS[TD_FIELD_USAGE]);
    td_jw_bool(w, "include_usage", true);
    td_jw_end(w);
}

/* The members that every dialect of OpenAI's API knows. */
static void put_openai(struct td_jw *w, const struct td_api_server *s, const struct td_prompt *p, const struct td_sampling *m)
{
    int32_t k = m->logprobs, cap = p->messages ? 20 : 5;

    td_jw_cstr(w, "model", s->model);
    put_prompt(w, p);
    td_jw_i64(w, "max_tokens", p->max_tokens ? p->max_tokens : m->max_tokens);
    put_greedy(w, m);
    td_jw_i64(w, "seed", m->seed);
    put_logprobs(w, p->messages != NULL, s->kind == TD_API_OPENAI && k > cap ? cap : k);
    td_jw_bool(w, "stream", m->stream);
    put_usage(w, s, m);
}

/* Further sampling parameters of vLLM and SGLang. */
static void put_samplers(struct td_jw *w, const struct td_sampling *m)
{
    td_jw_i64(w, "top_k", -1);
    td_jw_num(w, "min_p", 0);
    td_jw_num(w, "repetition_penalty", 1);
    td_jw_bool(w, "ignore_eos", m->ignore_eos);
}

static void put_flag(struct td_jw *w, const struct td_api_server *s, enum td_api_field f)
{
    if (sends_field(s, f))
        td_jw_bool(w, FIELDS[f], true);
}

static void put_salt(struct td_jw *w, const struct td_api_server *s)
{
    if (sends_field(s, TD_FIELD_SALT))
        td_jw_cstr(w, FIELDS[TD_FIELD_SALT], "td-0000000000000000");
}

static void put_vllm_extras(struct td_jw *w, const struct td_api_server *s, const struct td_sampling *m)
{
    put_samplers(w, m);
    put_flag(w, s, TD_FIELD_TOKEN_IDS);
    put_flag(w, s, TD_FIELD_IDS_AS_TEXT);
    put_salt(w, s);
}

static void put_llamacpp_extras(struct td_jw *w, const struct td_sampling *m)
{
    td_jw_i64(w, "top_k", 0);
    td_jw_num(w, "min_p", 0);
    td_jw_num(w, "typical_p", 1);
    td_jw_num(w, "repeat_penalty", 1);
    td_jw_bool(w, "ignore_eos", m->ignore_eos);
    td_jw_bool(w, "return_tokens", true);
    td_jw_bool(w, "cache_prompt", false);
}

/* vLLM's TD_API_GENERATE: tokens in, tokens out, no text, and logprobs name ids. */
static void put_generate(struct td_jw *w, const struct td_api_server *s, const struct td_prompt *p, const struct td_sampling *m)
{
    td_jw_cstr(w, "model", s->model);
    td_jw_i32s(w, "token_ids", p->ids, p->n_ids);
    td_jw_obj(w, "sampling_params");
    td_jw_i64(w, "max_tokens", p->max_tokens ? p->max_tokens : m->max_tokens);
    put_greedy(w, m);
    td_jw_i64(w, "seed", m->seed);
    put_samplers(w, m);
    if (m->logprobs > 0)
        td_jw_i64(w, "logprobs", m->logprobs);
    td_jw_end(w);
    td_jw_bool(w, "stream", m->stream);
    put_usage(w, s, m);
    put_flag(w, s, TD_FIELD_TOKEN_IDS);
    put_salt(w, s);
}

/* SGLang's /generate, from its documentation. Seeds differ between its versions, and greedy answers need none. */
static void put_sglang_native(struct td_jw *w, const struct td_prompt *p, const struct td_sampling *m)
{
    if (p->ids)
        td_jw_i32s(w, "input_ids", p->ids, p->n_ids);
    else
        put_text(w, "text", p->text);
    td_jw_obj(w, "sampling_params");
    td_jw_i64(w, "max_new_tokens", p->max_tokens ? p->max_tokens : m->max_tokens);
    put_greedy(w, m);
    put_samplers(w, m);
    td_jw_end(w);
    if (m->logprobs > 0) {
        td_jw_bool(w, "return_logprob", true);
        td_jw_i64(w, "logprob_start_len", -1); /* of the answer only */
        td_jw_i64(w, "top_logprobs_num", m->logprobs);
    }
    td_jw_bool(w, "stream", m->stream);
}

static void put_llamacpp_native(struct td_jw *w, const struct td_prompt *p, const struct td_sampling *m)
{
    put_prompt(w, p);
    td_jw_i64(w, "n_predict", p->max_tokens ? p->max_tokens : m->max_tokens);
    put_greedy(w, m);
    td_jw_i64(w, "seed", m->seed);
    td_jw_i64(w, "n_probs", m->logprobs);
    td_jw_bool(w, "stream", m->stream);
}

static const char *path_of(const struct td_api_server *s, const struct td_prompt *p)
{
    if (p->messages)
        return "/v1/chat/completions";
    if (s->kind == TD_API_LLAMACPP)
        return "/completion";
    if (s->kind == TD_API_SGLANG)
        return "/generate";
    return s->generate && p->ids ? TD_API_GENERATE : "/v1/completions";
}

static void put_body(struct td_jw *w, const struct td_api_server *s, const struct td_prompt *p, const struct td_sampling *m)
{
    bool native = !p->messages;

    if (native && s->kind == TD_API_SGLANG) {
        put_sglang_native(w, p, m);
    } else if (native && s->generate && p->ids) {
        put_generate(w, s, p, m);
    } else if (native && s->kind == TD_API_LLAMACPP) {
        put_llamacpp_native(w, p, m);
        put_llamacpp_extras(w, m);
    } else {
        put_openai(w, s, p, m);
        if (s->kind == TD_API_LLAMACPP)
            put_llamacpp_extras(w, m), put_flag(w, s, TD_FIELD_TIMINGS);
        if (s->kind == TD_API_VLLM)
            put_vllm_extras(w, s, m);
        if (s->kind == TD_API_SGLANG)
            put_samplers(w, m);
    }
}

int td_api_write_body(const struct td_api_server *s, const struct td_prompt *p,
                      const struct td_sampling *smp, struct td_buf *out, const char **path,
                      struct td_error *err)
{
    struct td_jw w;

    if (s->kind == TD_API_OPENAI && smp->ignore_eos)
        return td_fail(err, TD_EUNSUPPORTED, "a plain OpenAI server has no ignore_eos; leave --ignore-eos out");
    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    *path = path_of(s, p);
    put_body(&w, s, p, smp);
    td_jw_end(&w);
    return out->failed ? td_fail(err, TD_ELIMIT, "the request for \"%s\" is too long", p->id) : TD_OK;
}

int td_api_renew_salt(char *body, size_t n, uint64_t value)
{
    static const char hex[] = "0123456789abcdef";
    size_t mark = strlen(SALT_MARK), i, j;
    char *at = body, *end = body + n;
    int found = 0;

    while ((at = memmem(at, (size_t)(end - at), SALT_MARK, mark))) {
        at += mark;
        if ((size_t)(end - at) <= SALT_DIGITS || at[SALT_DIGITS] != '"')
            continue;
        for (i = 0, j = 60; i < SALT_DIGITS; i++, j -= 4)
            at[i] = hex[value >> j & 15];
        found++;
    }
    return found;
}

/* ---- refused fields ------------------------------------------------------------------------------------------------- */

/* The fields that may be left out, of those that this dialect sends. */
static unsigned fields_of_dialect(enum td_api_kind kind)
{
    switch (kind) {
    case TD_API_VLLM:
        return 1u << TD_FIELD_TOKEN_IDS | 1u << TD_FIELD_IDS_AS_TEXT | 1u << TD_FIELD_SALT | 1u << TD_FIELD_USAGE;
    case TD_API_LLAMACPP:
        return 1u << TD_FIELD_USAGE | 1u << TD_FIELD_TIMINGS;
    default:
        return 1u << TD_FIELD_USAGE;
    }
}

bool td_api_note_refusal(struct td_api_server *s, const struct td_exchange *x)
{
    unsigned left = fields_of_dialect(s->kind) & ~s->without, named = 0;
    bool refused = x->error_kind && !strcmp(x->error_kind, "http") && (x->http_status == 400 || x->http_status == 422);
    int f;

    if (!refused || !left)
        return false;
    for (f = 0; f < TD_N_FIELDS; f++)
        if (left >> f & 1 && strstr(x->error, FIELDS[f]))
            named |= 1u << f;
    named = named ? named : left; /* the error names none: leave all of them out */
    s->without |= named;
    for (f = 0; f < TD_N_FIELDS; f++)
        if (named >> f & 1)
            snprintf(s->refusal[f], sizeof s->refusal[f], "%.150s", x->error);
    return true;
}

int td_api_strip_body(const struct td_api_server *s, const char *text, size_t len,
                      struct td_buf *out)
{
    cJSON *body = s->without ? td_json_parse(text, len, NULL) : NULL;
    struct td_jw w;
    int f, n = 0;

    for (f = 0; body && f < TD_N_FIELDS; f++)
        if (s->without >> f & 1 && td_json_get(body, FIELDS[f])) {
            cJSON_DeleteItemFromObjectCaseSensitive(body, FIELDS[f]);
            n++;
        }
    if (n) {
        td_jw_init(&w, out, false);
        td_jw_value(&w, NULL, body);
    }
    cJSON_Delete(body);
    return n;
}
