/* routes.c - which path is answered by what, and the small endpoints.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "demo/server/server.h"

#define MAX_ANSWER ((size_t)64 << 20)

static void reply_detail(struct td_call *c, int status, const char *detail)
{
    struct td_buf out = TD_BUF_INIT(1024);

    td_buf_addf(&out, "{\"detail\":\"%s\"}", detail);
    td_call_reply_json(c, status, &out);
    td_buf_release(&out);
}

void td_server_fail(struct td_call *c, const struct td_api_error *e)
{
    struct td_buf out = TD_BUF_INIT(8192);

    td_api_error_render(e, &out);
    td_call_reply_json(c, e->status, &out);
    td_buf_release(&out);
}

bool td_server_wants_json(struct td_call *c)
{
    const char *type = td_call_header(c, "Content-Type");
    struct td_api_error e = {0};

    if (type && strncasecmp(type, "application/json", 16) == 0 && (!type[16] || strchr("; \t", type[16])))
        return true;
    td_api_fail(&e, 400, NULL, "[\"Unsupported Media Type: Only 'application/json' is allowed\"]");
    e.type = "Bad Request";
    td_server_fail(c, &e);
    return false;
}

/* ---- GET ----------------------------------------------------------------------------------------------------------- */

static void get_health(struct td_server *s, struct td_call *c)
{
    td_call_reply(c, td_engine_is_alive(s->engine) ? 200 : 503, NULL, NULL);
}

static void get_version(struct td_server *s, struct td_call *c)
{
    struct td_buf out = TD_BUF_INIT(256);

    (void)s;
    td_buf_adds(&out, "{\"version\":\"" TD_VERSION "+tapedeck.demo\"}");
    td_call_reply_json(c, 200, &out);
    td_buf_release(&out);
}

static void write_permission(struct td_jw *w, const struct td_server *s)
{
    static const char *const yes[] = {"allow_sampling", "allow_logprobs", "allow_view"};
    static const char *const no[] = {"allow_create_engine", "allow_search_indices", "allow_fine_tuning", "is_blocking"};

    td_jw_arr(w, "permission");
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "id", "modelperm-0");
    td_jw_cstr(w, "object", "model_permission");
    td_jw_i64(w, "created", s->created_s);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        td_jw_bool(w, yes[i], true);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        td_jw_bool(w, no[i], false);
    td_jw_cstr(w, "organization", "*");
    td_jw_null(w, "group");
    td_jw_end(w);
    td_jw_end(w);
}

static void get_models(struct td_server *s, struct td_call *c)
{
    struct td_buf out = TD_BUF_INIT(16384);
    struct td_jw w;

    td_jw_init(&w, &out, false);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "object", "list");
    td_jw_arr(&w, "data");
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "id", s->model.name);
    td_jw_cstr(&w, "object", "model");
    td_jw_i64(&w, "created", s->created_s);
    td_jw_cstr(&w, "owned_by", "vllm");
    td_jw_cstr(&w, "root", s->model_dir);
    td_jw_null(&w, "parent");
    td_jw_i64(&w, "max_model_len", s->model.context);
    write_permission(&w, s);
    td_jw_end(&w);
    td_jw_end(&w);
    td_jw_end(&w);
    td_call_reply_json(c, 200, &out);
    td_buf_release(&out);
}

static void get_metrics(struct td_server *s, struct td_call *c)
{
    struct td_buf out = TD_BUF_INIT(1 << 20);

    td_server_metrics_render(&s->metrics, s->model.name, &out);
    td_call_reply(c, 200, "text/plain; version=1.0.0; charset=utf-8", &out);
    td_buf_release(&out);
}

/* ---- POST ---------------------------------------------------------------------------------------------------------- */

static void write_tokens(struct td_jw *w, const struct td_server *s, const cJSON *root, const int32_t *ids, int n)
{
    td_jw_obj(w, NULL);
    td_jw_i64(w, "count", n);
    td_jw_i64(w, "max_model_len", s->model.context);
    td_jw_arr(w, "tokens");
    for (int i = 0; i < n; i++)
        td_jw_i64(w, NULL, ids[i]);
    td_jw_end(w);
    if (td_json_get_bool(root, "return_token_strs", false)) {
        td_jw_arr(w, "token_strs");
        for (int i = 0; i < n; i++)
            td_jw_cstr(w, NULL, td_tokenizer_spelling(s->tokenizer, ids[i]));
        td_jw_end(w);
    } else {
        td_jw_null(w, "token_strs");
    }
    td_jw_end(w);
}

static void post_tokenize(struct td_server *s, struct td_call *c)
{
    struct td_api_error e = {0};
    struct td_buf out = TD_BUF_INIT(MAX_ANSWER);
    struct td_jw w;
    int32_t *ids = NULL;
    int n = -1;
    cJSON *root = td_request_json(&s->model, td_buf_str(&c->body), c->body.len, &e);

    if (root)
        n = td_request_prompt(&s->model, root, td_json_get(root, "messages") != NULL, &ids, &e);
    if (n >= 0) {
        td_jw_init(&w, &out, false);
        write_tokens(&w, s, root, ids, n);
        td_call_reply_json(c, 200, &out);
    } else {
        td_server_fail(c, &e);
    }
    cJSON_Delete(root);
    free(ids);
    td_buf_release(&out);
}

static void post_detokenize(struct td_server *s, struct td_call *c)
{
    struct td_api_error e = {0};
    struct td_buf bytes = TD_BUF_INIT(TD_HTTPD_MAX_BODY), text = TD_BUF_INIT(MAX_ANSWER), out = TD_BUF_INIT(MAX_ANSWER);
    cJSON *root = td_request_json(&s->model, td_buf_str(&c->body), c->body.len, &e);
    const cJSON *tokens = td_json_get(root, "tokens"), *v;
    struct td_jw w;

    if (!e.status && !cJSON_IsArray(tokens))
        td_api_fail(&e, 400, "tokens", "[{'type': 'list_type', 'loc': ('body', 'tokens'), 'msg': 'Input should be a valid list'}]");
    cJSON_ArrayForEach(v, tokens) {
        int64_t id = td_json_i64(v, -1);
        size_t n;
        if (id < 0 || id >= td_tokenizer_size(s->tokenizer)) {
            td_api_fail(&e, 400, "tokens", "Token id %lld is out of vocabulary", (long long)id);
            break;
        }
        const char *b = td_tokenizer_bytes(s->tokenizer, (int32_t)id, &n);
        td_buf_add(&bytes, b, n);
    }
    if (e.status) {
        td_server_fail(c, &e);
    } else {
        td_utf8_clean(td_buf_str(&bytes), bytes.len, &text);
        td_jw_init(&w, &out, false);
        td_jw_obj(&w, NULL);
        td_jw_str(&w, "prompt", td_buf_str(&text), text.len);
        td_jw_end(&w);
        td_call_reply_json(c, 200, &out);
    }
    cJSON_Delete(root);
    td_buf_release(&bytes);
    td_buf_release(&text);
    td_buf_release(&out);
}

static void post_completions(struct td_server *s, struct td_call *c)
{
    td_server_generate(s, c, false);
}

static void post_chat(struct td_server *s, struct td_call *c)
{
    td_server_generate(s, c, true);
}

/* ---- which -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *method, *path;
    void (*answer)(struct td_server *s, struct td_call *c);
} routes[] = {
    {"GET", "/health", get_health},
    {"GET", "/version", get_version},
    {"GET", "/v1/models", get_models},
    {"GET", "/metrics", get_metrics},
    {"POST", "/tokenize", post_tokenize},
    {"POST", "/detokenize", post_detokenize},
    {"POST", "/v1/completions", post_completions},
    {"POST", "/v1/chat/completions", post_chat},
};

void td_server_route(void *user, struct td_call *c)
{
    struct td_server *s = user;
    bool is_known = false;

    if (atomic_load(&s->is_loading)) {
        td_call_reply(c, 503, NULL, NULL);
        return;
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(routes[i].path, c->url) != 0)
            continue;
        is_known = true;
        if (strcmp(routes[i].method, c->method) != 0)
            continue;
        if (routes[i].method[0] == 'G' || td_server_wants_json(c))
            routes[i].answer(s, c);
        return;
    }
    reply_detail(c, is_known ? 405 : 404, is_known ? "Method Not Allowed" : "Not Found");
}
