/* extras.c - ask for what a server offers beyond its answers, and note the outcome.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/extras.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "wire/api_body.h"
#include "wire/fetch.h"

#define SHORT_MS 5000
#define INFO_MS 30000           /* vLLM collects versions of packages at the first call */
#define MAX_INFO ((size_t)64 << 10) /* of each member that is stored */

void td_extras_set(struct td_extras *e, const char *name, const char *got, const char *why)
{
    struct td_extra *x;
    int i;

    for (i = 0; i < e->n && strcmp(e->list[i].name, name) != 0;)
        i++;
    if (i == TD_EXTRAS_MAX) {
        e->left_out++;
        return;
    }
    x = &e->list[i];
    e->n = i == e->n ? i + 1 : e->n;
    snprintf(x->name, sizeof x->name, "%s", name);
    snprintf(x->got, sizeof x->got, "%s", got);
    snprintf(x->why, sizeof x->why, "%.199s", why ? why : "");
}

static void set_bool(struct td_extras *e, const char *name, bool yes, const char *why_not)
{
    td_extras_set(e, name, yes ? "yes" : "no", yes ? NULL : why_not);
}

/* Note a field of the body: answered, refused, or accepted without an answer. */
static void check_field(struct td_extras *e, const struct td_api_server *s,
                        const struct td_exchange *x, enum td_api_field f, bool yes,
                        const char *why_not)
{
    if (s->without >> f & 1)
        td_extras_set(e, td_api_field_name(f), "refused", s->refusal[f]);
    else if (td_json_get(x->request, td_api_field_name(f)))
        set_bool(e, td_api_field_name(f), yes, why_not);
}

static bool ids_as_text(const struct td_exchange *x)
{
    return x->n_tokens > 0 && x->token_ids && x->top && x->top[0].id >= 0;
}

void td_extras_check_answer(struct td_extras *e, const struct td_api_server *s,
                            const struct td_exchange *x, const char *id)
{
    int64_t max_tokens = td_json_get_i64(x->request, "max_tokens", td_json_get_i64(x->request, "n_predict", -1));
    bool usage = x->usage.completion_tokens >= 0;

    check_field(e, s, x, TD_FIELD_TOKEN_IDS, x->token_ids != NULL, "accepted, but not answered");
    check_field(e, s, x, TD_FIELD_IDS_AS_TEXT, ids_as_text(x), "accepted, but not answered");
    check_field(e, s, x, TD_FIELD_USAGE, usage, "accepted, but not answered");
    check_field(e, s, x, TD_FIELD_SALT, true, NULL); /* nothing in an answer shows it */
    set_bool(e, "token_ids", x->token_ids != NULL, "no id in the answer");
    set_bool(e, "token_ids_complete", x->ids_complete,
             x->token_ids ? "ids and the count of tokens differ" : "no id in the answer");
    set_bool(e, "prompt_token_ids", x->n_prompt_ids > 0, "not in the answer");
    set_bool(e, "logprobs", x->logprobs != NULL, "not in the answer");
    set_bool(e, "usage", usage, "not in the answer");
    set_bool(e, "system_fingerprint", td_json_get_str(x->extra, "fingerprint", NULL) != NULL, "not in the answer");
    if (id)
        set_bool(e, "x_request_id", strstr(td_json_get_str(x->extra, "response_id", ""), id) != NULL,
                 "the answer's id is not made of the X-Request-Id that was sent");
    if (td_json_get_bool(x->request, "ignore_eos", false))
        set_bool(e, "ignore_eos", x->n_tokens == max_tokens, "the answer ended early");
    if (s->kind == TD_API_VLLM)
        set_bool(e, TD_API_GENERATE, s->generate, "not there; vllm serve --enable-scale-out has it");
}

void td_extras_write_fact(const struct td_extras *e, struct td_writer *w)
{
    cJSON *list = cJSON_CreateArray();
    int i;

    for (i = 0; i < e->n; i++) {
        cJSON *o = cJSON_CreateObject();

        cJSON_AddStringToObject(o, "name", e->list[i].name);
        cJSON_AddStringToObject(o, "got", e->list[i].got);
        if (*e->list[i].why)
            cJSON_AddStringToObject(o, "why", e->list[i].why);
        cJSON_AddItemToArray(list, o);
    }
    td_writer_fact(w, "server", "extras", list);
    cJSON_Delete(list);
    if (e->left_out)
        td_writer_fact_num(w, "server", "extras_left_out", e->left_out);
}

/* ---- routes --------------------------------------------------------------------------------------------------------- */

/* Ask a route. True: HTTP 200, with its body in r. Else the reason is noted. */
static bool ask_route(struct td_extras *e, const struct td_api_server *s,
                      const char *const *headers, const char *path, bool post, int ms,
                      struct td_http_reply *r)
{
    struct td_error err = {0};
    char url[700], why[200];
    int rc;

    snprintf(url, sizeof url, "%s%s", s->url, path);
    rc = td_http_fetch(url, headers, post ? "" : NULL, 0, ms, r, &err);
    if (!rc && r->status == 200) {
        td_extras_set(e, path, "yes", NULL);
        return true;
    }
    if (rc)
        snprintf(why, sizeof why, "%.190s", err.msg);
    else
        snprintf(why, sizeof why, "HTTP %d: %.150s", r->status, td_buf_str(&r->body));
    td_extras_set(e, path, "refused", why);
    return false;
}

void td_extras_metrics(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_metrics *m)
{
    struct td_http_reply r = TD_HTTP_REPLY_INIT;

    if (ask_route(e, s, headers, "/metrics", false, SHORT_MS, &r)) {
        td_metrics_parse(m, td_buf_str(&r.body), r.body.len);
        if (!m->n)
            td_extras_set(e, "/metrics", "no", "answers, but with no sample of an engine that is known");
    }
    td_buf_release(&r.body);
}

bool td_extras_reset_cache(struct td_extras *e, const struct td_api_server *s, const char *const *headers)
{
    const char *path = s->kind == TD_API_VLLM ? "/reset_prefix_cache" : s->kind == TD_API_SGLANG ? "/flush_cache" : NULL;
    struct td_http_reply r = TD_HTTP_REPLY_INIT;
    bool done = path && ask_route(e, s, headers, path, true, SHORT_MS, &r);
    cJSON *v = done ? td_json_parse(td_buf_str(&r.body), r.body.len, NULL) : NULL;

    if (cJSON_IsFalse(td_json_get(v, "success"))) {
        td_extras_set(e, path, "no", "the server says success: false");
        done = false;
    }
    cJSON_Delete(v);
    td_buf_release(&r.body);
    return done;
}

/* Copy the members that describe the engine. The rest (packages, hardware of the host) is long, and
 * recorded elsewhere. The writer overwrites secrets: SGLang reports its own api_key. */
static cJSON *select_info(const cJSON *v)
{
    cJSON *out = cJSON_CreateObject();
    const cJSON *m;

    cJSON_ArrayForEach(m, v) {
        char *text = cJSON_PrintUnformatted(m);

        if (text && strlen(text) <= MAX_INFO && strcmp(m->string, "system_env") != 0)
            cJSON_AddItemToObject(out, m->string, cJSON_Duplicate(m, true));
        cJSON_free(text);
    }
    return out;
}

/* Ask for /server_info, or SGLang's older /get_server_info. A server that does not answer at all is
 * not asked again. */
static bool ask_info(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_http_reply *r)
{
    if (s->kind != TD_API_VLLM && s->kind != TD_API_SGLANG)
        return false;
    if (ask_route(e, s, headers, "/server_info", false, INFO_MS, r))
        return true;
    td_buf_clear(&r->body);
    return s->kind == TD_API_SGLANG && r->status >= 400 &&
           ask_route(e, s, headers, "/get_server_info", false, INFO_MS, r);
}

void td_extras_server_info(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_writer *w)
{
    struct td_http_reply r = TD_HTTP_REPLY_INIT;
    cJSON *v = NULL, *selected;

    if (ask_info(e, s, headers, &r))
        v = td_json_parse(td_buf_str(&r.body), r.body.len, NULL);
    if (cJSON_IsObject(v)) {
        selected = select_info(v);
        td_writer_fact(w, "server", "info", selected);
        cJSON_Delete(selected);
    }
    cJSON_Delete(v);
    td_buf_release(&r.body);
}
