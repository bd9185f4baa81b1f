/* request.c - read generation requests: their fields, defaults and limits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Defaults and messages: vllm/entrypoints/openai/{completion,chat_completion}/protocol.py, vllm/sampling_params.py. Fields that
 * would change the answer and that this server does not know are refused by name; all others are ignored, as vLLM does. */
#include "demo/server/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/json.h"
#include "demo/server/engine.h"

#define MAX_TEXT ((size_t)16 << 20)

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* FastAPI's error for a field of the wrong type. */
static bool fail_type(struct td_server_error *e, const char *key, const char *kind,
                      const char *what)
{
    td_server_error_set(
        e, 400, key,
        "[{'type': '%s_type', 'loc': ('body', '%s'), 'msg': 'Input should be a valid %s'}]", kind,
        key, what);
    e->type = "Bad Request";
    return false;
}

/* ---- fields: missing or null keeps the default in *out ------------------------------------------------------------ */

static bool read_i64(const cJSON *root, const char *key, int64_t min, int64_t max, int64_t *out,
                     struct td_server_error *e)
{
    const cJSON *v = td_json_get(root, key);
    double whole;
    int64_t i;

    if (!v || cJSON_IsNull(v))
        return true;
    i = td_json_i64(v, INT64_MIN);
    if (i == INT64_MIN || (cJSON_IsNumber(v) && modf(v->valuedouble, &whole) != 0))
        return fail_type(e, key, "int", "integer");
    if (i < min || i > max)
        return td_server_error_set(e, 400, key, "%s must be from %lld to %lld, got %lld.", key,
                                   (long long)min, (long long)max, (long long)i);
    *out = i;
    return true;
}

static bool read_int(const cJSON *root, const char *key, int min, int max, int *out,
                     struct td_server_error *e)
{
    int64_t v = *out;
    bool ok = read_i64(root, key, min, max, &v, e);

    *out = (int)v;
    return ok;
}

static bool read_num(const cJSON *root, const char *key, double *out, struct td_server_error *e)
{
    const cJSON *v = td_json_get(root, key);

    if (!v || cJSON_IsNull(v))
        return true;
    if (!cJSON_IsNumber(v))
        return fail_type(e, key, "float", "number");
    *out = v->valuedouble;
    return true;
}

static bool read_bool(const cJSON *root, const char *key, bool *out, struct td_server_error *e)
{
    const cJSON *v = td_json_get(root, key);

    if (!v || cJSON_IsNull(v))
        return true;
    if (!cJSON_IsBool(v))
        return fail_type(e, key, "bool", "boolean");
    *out = cJSON_IsTrue(v);
    return true;
}

/* ---- what this server cannot do ------------------------------------------------------------------------------------ */

static bool is_empty(const cJSON *v)
{
    return !v || cJSON_IsNull(v) || cJSON_IsFalse(v) || ((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child) ||
           (cJSON_IsString(v) && !v->valuestring[0]) || (cJSON_IsNumber(v) && v->valuedouble == 0);
}

static bool refuse_unsupported(const cJSON *root, struct td_server_error *e)
{
    static const char *const empty[] = {"stop",
                                        "stop_token_ids",
                                        "echo",
                                        "suffix",
                                        "logit_bias",
                                        "allowed_token_ids",
                                        "bad_words",
                                        "min_p",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "tools",
                                        "use_beam_search",
                                        "structured_outputs",
                                        "logprob_token_ids",
                                        "repetition_detection",
                                        "prompt_embeds"};
    static const char *const one[] = {"n", "best_of", "repetition_penalty", "length_penalty"};

    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (!is_empty(td_json_get(root, empty[i])))
            return td_server_error_set(e, 400, empty[i], "%s is not supported by the demo server",
                                       empty[i]);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (td_json_get_num(root, one[i], 1) != 1)
            return td_server_error_set(
                e, 400, one[i], "%s other than 1 is not supported by the demo server", one[i]);
    if (strcmp(td_json_get_str(td_json_get(root, "response_format"), "type", "text"), "text") != 0)
        return td_server_error_set(e, 400, "response_format",
                                   "response_format is not supported by the demo server");
    return true;
}

/* ---- the prompt ---------------------------------------------------------------------------------------------------- */

cJSON *td_request_json(const struct td_request_model *model, const char *body, size_t n,
                       struct td_server_error *e)
{
    struct td_error err = {0};
    cJSON *root = td_json_parse(body, n, &err);
    const cJSON *name = td_json_get(root, "model");

    if (!root) {
        td_server_error_set(e, 400, NULL,
                            "[{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode "
                            "error', 'input': {}, 'ctx': {'error': '%s'}}]",
                            err.msg);
        e->type = "Bad Request";
    } else if (!cJSON_IsObject(root)) {
        td_server_error_set(e, 400, NULL,
                            "[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input "
                            "should be a valid dictionary'}]");
        e->type = "Bad Request";
    } else if (cJSON_IsString(name) && name->valuestring[0] && strcmp(name->valuestring, model->name) != 0) {
        td_server_error_set(e, 404, "model", "The model `%.200s` does not exist.",
                            name->valuestring);
    }
    if (!e->status)
        return root;
    cJSON_Delete(root);
    return NULL;
}

static int encode_text(const struct td_request_model *model, const struct td_buf *text,
                       int32_t **ids, struct td_server_error *e)
{
    if (text->failed || text->len > MAX_TEXT) {
        td_server_error_set(e, 400, "prompt", "the prompt is longer than %zu bytes", MAX_TEXT);
        return -1;
    }
    *ids = malloc((text->len + 1) * sizeof **ids);
    if (!*ids) {
        td_server_error_set(e, 500, NULL, "out of memory");
        return -1;
    }
    return (int)td_tokenizer_encode(model->tokenizer, td_buf_str(text), text->len, *ids);
}

static int copy_ids(const struct td_request_model *model, const cJSON *list, int32_t **ids,
                    struct td_server_error *e)
{
    int n = 0;
    const cJSON *v;

    *ids = malloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof **ids);
    if (!*ids) {
        td_server_error_set(e, 500, NULL, "out of memory");
        return -1;
    }
    cJSON_ArrayForEach(v, list) {
        int64_t id = cJSON_IsNumber(v) ? td_json_i64(v, -1) : -1;
        if (!cJSON_IsNumber(v))
            fail_type(e, "prompt", "int", "integer");
        else if (id < 0 || id >= model->vocab)
            td_server_error_set(e, 400, "prompt", "Token id %.0f is out of vocabulary",
                                v->valuedouble);
        if (e->status)
            break;
        (*ids)[n++] = (int32_t)id;
    }
    return e->status ? -1 : n;
}

static int completion_prompt(const struct td_request_model *model, const cJSON *prompt,
                             int32_t **ids, struct td_server_error *e)
{
    struct td_buf text = TD_BUF_INIT(MAX_TEXT);
    int n = -1;

    if (cJSON_IsArray(prompt) && (cJSON_IsString(prompt->child) || cJSON_IsArray(prompt->child))) {
        if (prompt->child->next) {
            td_server_error_set(
                e, 400, "prompt",
                "several prompts in one request are not supported by the demo server");
            return -1;
        }
        prompt = prompt->child;
    }
    if (cJSON_IsArray(prompt)) {
        n = copy_ids(model, prompt, ids, e);
    } else if (cJSON_IsString(prompt)) {
        td_json_bytes(prompt, &text);
        n = encode_text(model, &text, ids, e);
    } else {
        td_server_error_set(e, 400, "prompt",
                            "Either prompt or prompt_embeds must be provided and non-empty.");
    }
    td_buf_release(&text);
    return n;
}

/* A message's content: a string, or a list of {"type": "text", "text": ...}. */
static bool add_content(const cJSON *content, struct td_buf *text, struct td_server_error *e)
{
    const cJSON *part;

    if (cJSON_IsString(content))
        return td_json_bytes(content, text) == TD_OK;
    if (!cJSON_IsArray(content))
        return cJSON_IsNull(content) || !content || fail_type(e, "content", "string", "string");
    cJSON_ArrayForEach(part, content) {
        if (strcmp(td_json_get_str(part, "type", ""), "text") != 0)
            return td_server_error_set(e, 400, "messages",
                                       "only parts of type text are supported by the demo server");
        td_json_get_bytes(part, "text", text);
    }
    return true;
}

/* The one template (see README.md): "<|role|>content" for each message, then "<|assistant|>". A vocabulary without
 * <|user|> has the contents joined by line feeds. */
static int chat_prompt(const struct td_request_model *model, const cJSON *root, int32_t **ids,
                       struct td_server_error *e)
{
    const cJSON *messages = td_json_get(root, "messages"), *m;
    bool marked = td_tokenizer_special(model->tokenizer, "<|user|>") >= 0;
    struct td_buf text = TD_BUF_INIT(MAX_TEXT);
    int n = -1;

    if (!cJSON_IsArray(messages))
        fail_type(e, "messages", "list", "list");
    cJSON_ArrayForEach(m, messages) {
        if (marked)
            td_buf_addf(&text, "<|%s|>", td_json_get_str(m, "role", "user"));
        else if (m != messages->child)
            td_buf_addc(&text, '\n');
        if (!add_content(td_json_get(m, "content"), &text, e))
            break;
    }
    if (marked && td_json_get_bool(root, "add_generation_prompt", true))
        td_buf_adds(&text, "<|assistant|>");
    if (!e->status)
        n = encode_text(model, &text, ids, e);
    td_buf_release(&text);
    return n;
}

int td_request_prompt(const struct td_request_model *model, const cJSON *root, bool chat,
                      int32_t **ids, struct td_server_error *e)
{
    *ids = NULL;
    return chat ? chat_prompt(model, root, ids, e) : completion_prompt(model, td_json_get(root, "prompt"), ids, e);
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool read_sampling(struct td_sampler *s, const cJSON *root,
                          struct td_server_error *e)
{
    int64_t seed = 0;

    *s = (struct td_sampler){.temperature = 1, .top_p = 1, .top_k = 0};
    if (getrandom(&s->rng, sizeof s->rng, 0) != sizeof s->rng)
        s->rng = 0;
    if (!read_num(root, "temperature", &s->temperature, e) || !read_num(root, "top_p", &s->top_p, e) ||
        !read_int(root, "top_k", -1, INT32_MAX, &s->top_k, e) || !read_i64(root, "seed", INT64_MIN + 1, INT64_MAX, &seed, e))
        return false;
    if (cJSON_IsNumber(td_json_get(root, "seed")) || cJSON_IsString(td_json_get(root, "seed")))
        s->rng = (uint64_t)seed;
    if (!(s->temperature >= 0))
        return td_server_error_set(e, 400, "temperature",
                                   "temperature must be non-negative, got %g.", s->temperature);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return td_server_error_set(e, 400, "top_p", "top_p must be in (0, 1], got %g.", s->top_p);
    return true;
}

static bool read_logprobs(struct td_request *r, const cJSON *root, struct td_server_error *e)
{
    bool wanted = false;
    int top = 0;

    r->n_logprobs = -1;
    if (!r->chat)
        return read_int(root, "logprobs", 0, TD_TOP_MAX, &r->n_logprobs, e);
    if (!read_bool(root, "logprobs", &wanted, e) || !read_int(root, "top_logprobs", 0, TD_TOP_MAX, &top, e))
        return false;
    if (top > 0 && !wanted)
        return td_server_error_set(e, 400, "top_logprobs",
                                   "when using `top_logprobs`, `logprobs` must be set to true.");
    r->n_logprobs = wanted ? top : -1;
    return true;
}

/* vLLM's checks and errors. vLLM has prompt_logprobs for chats too; this server does not. */
static bool read_prompt_logprobs(struct td_request *r, const cJSON *root, struct td_server_error *e)
{
    r->n_prompt_logprobs = -1;
    if (!read_int(root, "prompt_logprobs", 0, TD_TOP_MAX, &r->n_prompt_logprobs, e))
        return false;
    if (r->stream && r->n_prompt_logprobs > 0)
        return td_server_error_set(e, 400, "prompt_logprobs",
                                   "`prompt_logprobs` are not available when `stream=True`.");
    if (r->chat && r->n_prompt_logprobs > 0)
        return td_server_error_set(
            e, 400, "prompt_logprobs",
            "prompt_logprobs of a chat are not supported by the demo server");
    if (r->stream || r->chat)
        r->n_prompt_logprobs = -1;
    return true;
}

static bool read_stream(struct td_request *r, const cJSON *root, struct td_server_error *e)
{
    const cJSON *options = td_json_get(root, "stream_options");

    if (!read_bool(root, "stream", &r->stream, e))
        return false;
    if (!r->stream && options && !cJSON_IsNull(options))
        return td_server_error_set(e, 400, "stream_options",
                                   "Stream options can only be defined when `stream=True`.");
    return read_bool(options, "include_usage", &r->include_usage, e) &&
           read_bool(options, "continuous_usage_stats", &r->continuous_usage, e);
}

static bool read_length(struct td_request *r, const cJSON *root,
                        const struct td_request_model *model, struct td_server_error *e)
{
    int room = model->context - r->n_prompt, asked = 0;

    if (!read_int(root, "max_tokens", 1, INT32_MAX, &asked, e) ||
        (r->chat && !read_int(root, "max_completion_tokens", 1, INT32_MAX, &asked, e)) ||
        !read_int(root, "min_tokens", 0, INT32_MAX, &r->min_tokens, e))
        return false;
    if (r->n_prompt == 0)
        return td_server_error_set(e, 400, "prompt", "The decoder prompt cannot be empty");
    if (room < 1 || asked > room)
        return td_server_error_set(e, 400, "input_tokens",
                                   "This model's maximum context length is %d tokens. However, you "
                                   "requested %d output tokens and your prompt contains at "
                                   "least %d input tokens, for a total of at least %lld tokens. "
                                   "Please reduce the length of the input prompt or the number "
                                   "of requested output tokens.",
                                   model->context, asked, r->n_prompt,
                                   (long long)r->n_prompt + asked);
    r->max_tokens = asked ? asked : r->chat || room < 16 ? room : 16;
    if (r->min_tokens > r->max_tokens)
        return td_server_error_set(
            e, 400, "min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.",
            r->max_tokens, r->min_tokens);
    return true;
}

static bool read_fields(struct td_request *r, const cJSON *root,
                        const struct td_request_model *model, struct td_server_error *e)
{
    if (!refuse_unsupported(root, e) || !read_stream(r, root, e) || !read_logprobs(r, root, e) ||
        !read_prompt_logprobs(r, root, e) || !read_sampling(&r->sampling, root, e) ||
        !read_bool(root, "return_token_ids", &r->return_token_ids, e) ||
        !read_bool(root, "return_tokens_as_token_ids", &r->tokens_as_ids, e) ||
        !read_bool(root, "ignore_eos", &r->ignore_eos, e) ||
        !read_bool(root, "skip_special_tokens", &r->skip_special, e))
        return false;
    r->n_prompt = td_request_prompt(model, root, r->chat, &r->prompt, e);
    return r->n_prompt >= 0 && read_length(r, root, model, e);
}

bool td_request_parse(struct td_request *r, const struct td_request_model *model, bool chat, const char *body, size_t n,
                      struct td_server_error *e)
{
    cJSON *root = td_request_json(model, body, n, e);
    bool ok;

    *r = (struct td_request){.chat = chat, .skip_special = true};
    ok = root && read_fields(r, root, model, e);
    cJSON_Delete(root);
    if (!ok)
        td_request_release(r);
    return ok;
}

void td_request_release(struct td_request *r)
{
    free(r->prompt);
    r->prompt = NULL;
    r->n_prompt = 0;
}
