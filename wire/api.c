/* api.c - find out whether a server is vLLM, llama.cpp, SGLang or another one, and what it serves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/progress.h"
#include "wire/fetch.h"

#define PROBE_MS 5000

static const char *const NAMES[] = {"auto", "vllm", "openai", "llamacpp", "sglang"};

const char *td_api_name(enum td_api_kind kind)
{
    return NAMES[kind];
}

int td_api_parse(const char *name, enum td_api_kind *out, struct td_error *err)
{
    size_t i;

    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (!strcasecmp(name, NAMES[i])) {
            *out = (enum td_api_kind)i;
            return TD_OK;
        }
    }
    return td_fail(err, TD_EINVAL, "no API \"%s\"; known are auto, vllm, openai, llamacpp, sglang", name);
}

/* Does a port from 1 to 65535, or no port at all, follow HOST or [V6]? */
static bool port_is_sound(const char *rest)
{
    size_t len = strcspn(rest, "/");
    const char *v6 = *rest == '[' ? memchr(rest, ']', len) : NULL, *from = v6 ? v6 : rest;
    const char *colon = memchr(from, ':', len - (size_t)(from - rest));
    char *end;
    long port;

    if (!colon)
        return true;
    port = strtol(colon + 1, &end, 10);
    return colon[1] >= '0' && colon[1] <= '9' && end == rest + len && port >= 1 && port <= 65535;
}

int td_api_url(const char *server, char *out, size_t n, struct td_error *err)
{
    bool http = !strncasecmp(server, "http://", 7), https = !strncasecmp(server, "https://", 8);
    const char *rest = http ? server + 7 : https ? server + 8 : server;
    const int shown = (int)strcspn(server, "?#"); /* a key may stand behind it */
    size_t len;

    if (strchr(rest, '@'))
        return td_fail(err, TD_EINVAL, "no user name or password in --server: it would be written into the fixture; use "
                       "--header 'Authorization: …'");
    if (!*rest || *rest == '/' || strpbrk(rest, " \t\r\n\"") || (!http && !https && strstr(server, "://")))
        return td_fail(err, TD_EINVAL, "\"%.*s\" is no server; give HOST:PORT or http://HOST:PORT", shown,
                       server);
    if (!port_is_sound(rest))
        return td_fail(err, TD_EINVAL, "\"%.*s\": no such port; a port is a number from 1 to 65535", shown, server);
    if ((size_t)snprintf(out, n, "%s%s", https ? "https://" : "http://", rest) >= n)
        return td_fail(err, TD_EINVAL, "the server's address is longer than %zu characters", n - 1);
    for (len = strlen(out); len && out[len - 1] == '/';)
        out[--len] = '\0';
    if (len > 3 && !strcmp(out + len - 3, "/v1"))
        out[len - 3] = '\0';
    return TD_OK;
}

/* ---- probing -------------------------------------------------------------------------------------------------------- */

struct probe {
    const struct td_api_options *opt;
    struct td_api_server *s;
    struct td_http_reply reply;
    struct td_error unseen;   /* why a request failed first for what this machine lacks */
};

/* GET base + path. Returns the HTTP status, or a TD_E* code. */
static int http_get(struct td_http_reply *r, const char *base, const char *path,
                    const char *const *headers, struct td_error *err)
{
    char url[640];
    int rc;

    td_buf_clear(&r->body);
    snprintf(url, sizeof url, "%s%s", base, path);
    rc = td_http_fetch(url, headers, NULL, 0, PROBE_MS, r, err);
    return rc ? rc : r->status;
}

static cJSON *get_json(struct probe *p, const char *path)
{
    struct td_error why = {0, ""};
    int status = http_get(&p->reply, p->s->url, path, p->opt->headers, &why);

    if (status < 0 && p->reply.unseen)
        td_fail(&p->unseen, why.code, "%s", why.msg);
    return status == 200 ? td_json_parse(td_buf_str(&p->reply.body), p->reply.body.len, NULL) : NULL;
}

/* The list of models: as it may be shown, and in *names as it came, for requests name the model so. */
static cJSON *get_models(struct probe *p, cJSON **names)
{
    cJSON *shown = NULL;

    p->reply.as_it_came = true;
    *names = get_json(p, "/v1/models");
    p->reply.as_it_came = false;
    if (*names && !td_http_hide_body(p->opt->headers, &p->reply, NULL))
        shown = td_json_parse(td_buf_str(&p->reply.body), p->reply.body.len, NULL);
    return shown;
}

static int ask_health(struct td_http_reply *r, const struct td_api_server *s,
                      const char *const *headers, struct td_error *err)
{
    int status = http_get(r, s->url, "/health", headers, err);

    if (status == 404 || status == 405 || status == 501)
        status = http_get(r, s->url, "/v1/models", headers, err);
    if (status == TD_ETIMEOUT)
        return 0; /* it accepts, but is too busy to answer: loading */
    if (status < 0)
        return status;
    if (status == 401 || status == 403)
        return td_fail(err, TD_EPROTO, "%s asks for a key (HTTP %d); give it with --header 'Authorization: Bearer KEY'", s->url,
                       status);
    if (status == 502 || status == 503 || status == 504)
        return 0;
    if (status == 200)
        return 1;
    if (*r->redirect)
        return td_fail(err, TD_EPROTO, "%s redirects /health to %s (HTTP %d), which is not followed; give that address as "
                       "--server", s->url, r->redirect, status);
    return td_fail(err, TD_EPROTO, "%s answers HTTP %d to /health; is this an LLM server?", s->url, status);
}

int td_api_health(const struct td_api_server *s, const char *const *headers, struct td_error *err)
{
    struct td_http_reply r = TD_HTTP_REPLY_INIT;
    int rc = ask_health(&r, s, headers, err);

    td_buf_release(&r.body);
    return rc;
}

/* Why the server is not ready, as it reports it, for the timeout's sentence. */
static void loading_reason(const struct td_http_reply *r, char *out, size_t n)
{
    cJSON *v = td_json_parse(td_buf_str(&r->body), r->body.len, NULL);
    char status[32];

    snprintf(status, sizeof status, "HTTP %d", r->status);
    snprintf(out, n, "%s", td_json_get_str(td_json_get(v, "error"), "message",
                                           r->status ? status : "it accepts connections and answers nothing"));
    cJSON_Delete(v);
}

static int wait_ready(struct probe *p, struct td_error *err)
{
    const struct td_api_options *o = p->opt;
    int64_t until = td_clock_mono_ns() + o->timeout_ms * TD_NS_PER_MS;
    struct td_progress progress;
    struct td_error why;
    char words[120];
    int rc;

    td_progress_start(&progress, "waiting for the server", 0);
    for (;;) {
        memset(&why, 0, sizeof why);
        rc = ask_health(&p->reply, p->s, o->headers, &why);
        if (rc == 1)
            break;
        if (o->alive && !o->alive(o->alive_arg))
            rc = td_fail(err, TD_ECRASH, "the server ended before it was ready; see what it printed above");
        else if (o->stop && *o->stop)
            rc = td_fail(err, TD_EINTR, "interrupted while waiting for the server");
        else if (rc < 0 && !(rc == TD_EIO && o->wait_unreachable))
            rc = td_fail(err, rc, "%s", why.msg);
        else if (td_clock_mono_ns() >= until && rc < 0)
            rc = td_fail(err, TD_EIO, "%s (waited %.1f s)", why.msg, o->timeout_ms / 1000.0);
        else if (td_clock_mono_ns() >= until)
            loading_reason(&p->reply, words, sizeof words), rc = td_fail(err, TD_ETIMEOUT,
                "%s is not ready after %.1f s (%s); wait until its model is loaded, or give a longer --timeout", p->s->url,
                o->timeout_ms / 1000.0, words);
        if (err && err->code)
            break;
        td_progress_at(&progress, 0, rc == 0 ? "its model is loading" : "nobody listens yet");
        td_clock_sleep_until(td_clock_mono_ns() + 200 * TD_NS_PER_MS);
    }
    td_progress_done(&progress);
    return rc == 1 ? TD_OK : rc;
}

static void copy_str(char *out, size_t n, const char *s)
{
    snprintf(out, n, "%s", s ? s : "");
}

/* models and names: of get_models(), the same list twice */
static int choose_model(struct probe *p, const cJSON *models, const cJSON *names, struct td_error *err)
{
    const cJSON *data = td_json_get(models, "data"), *m, *found = NULL,
                *as_named = td_json_get(names, "data");
    const char *name = "";
    char list[200] = "";

    as_named = as_named ? as_named->child : NULL;
    cJSON_ArrayForEach(m, data) {
        const char *id = td_json_get_str(as_named, "id", "");
        size_t used = strlen(list);

        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", td_json_get_str(m, "id", ""));
        if (!found && (!p->opt->model || !strcmp(p->opt->model, id))) {
            found = m;
            name = id;
        }
        as_named = as_named ? as_named->next : NULL;
    }
    if (p->opt->model)
        copy_str(p->s->model, sizeof p->s->model, p->opt->model);
    if (strlen(name) >= sizeof p->s->model)
        return td_fail(err, TD_EPROTO, "%s names its model with more than %zu bytes; start it with a shorter name", p->s->url,
                       sizeof p->s->model - 1);
    if (found) {
        copy_str(p->s->model, sizeof p->s->model, name);
        copy_str(p->s->root, sizeof p->s->root, td_json_get_str(found, "root", ""));
        p->s->max_model_len = td_json_get_i64(found, "max_model_len", td_json_get_i64(td_json_get(found, "meta"), "n_ctx", 0));
    } else if (p->opt->model && *list && p->s->kind != TD_API_LLAMACPP) {
        return td_fail(err, TD_EINVAL, "the server has no model \"%s\"; it lists: %s", p->opt->model, list);
    }
    return TD_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* llama-server names its model by the path it was started with, unless told otherwise: take the
 * file's name from it. `meta` of /v1/models tells two files of one name apart. */
static void learn_llamacpp(struct probe *p, const cJSON *props, const cJSON *models)
{
    int64_t n_ctx = td_json_get_i64(td_json_get(props, "default_generation_settings"), "n_ctx", 0);
    const cJSON *meta = td_json_get(cJSON_GetArrayItem(td_json_get(models, "data"), 0), "meta");
    const char *path = td_json_get_str(props, "model_path", "");
    char name[sizeof p->s->model];

    copy_str(p->s->version, sizeof p->s->version, td_json_get_str(props, "build_info", ""));
    if (n_ctx)
        p->s->max_model_len = n_ctx;
    if (*path == '/' && !*p->s->root) /* a relative path starts in an unknown folder */
        copy_str(p->s->root, sizeof p->s->root, path);
    copy_str(name, sizeof name, base_name(*p->s->model ? p->s->model : *path ? path : "model"));
    copy_str(p->s->model, sizeof p->s->model, name);
    if (td_json_get(meta, "n_params"))
        snprintf(p->s->meta, sizeof p->s->meta, "%lld vocab, %lld params, %lld bytes%s%.40s",
                 (long long)td_json_get_i64(meta, "n_vocab", 0),
                 (long long)td_json_get_i64(meta, "n_params", 0),
                 (long long)td_json_get_i64(meta, "size", 0),
                 td_json_get(meta, "ftype") ? ", " : "", td_json_get_str(meta, "ftype", ""));
}

/* The routes were renamed: /get_model_info to /model_info, /get_server_info to /server_info. */
static void learn_sglang(struct probe *p)
{
    cJSON *model = get_json(p, "/get_model_info"), *server = get_json(p, "/get_server_info");

    if (!model)
        model = get_json(p, "/model_info");
    if (!server)
        server = get_json(p, "/server_info");
    copy_str(p->s->root, sizeof p->s->root, td_json_get_str(model, "model_path", p->s->root));
    copy_str(p->s->version, sizeof p->s->version, td_json_get_str(server, "version", ""));
    if (!p->s->max_model_len)
        p->s->max_model_len = td_json_get_i64(server, "context_length", 0);
    if (!*p->s->model)
        copy_str(p->s->model, sizeof p->s->model, td_json_get_str(model, "model_path", ""));
    cJSON_Delete(model);
    cJSON_Delete(server);
}

/* A route that takes POST answers GET with 405; a missing one answers 404. */
static void learn_vllm(struct probe *p)
{
    p->s->generate = http_get(&p->reply, p->s->url, TD_API_GENERATE, p->opt->headers, NULL) == 405;
}

static enum td_api_kind detect_kind(const char *owner, const cJSON *version, const cJSON *props)
{
    if (!strcasecmp(owner, "sglang"))
        return TD_API_SGLANG;
    if (props && (!strcasecmp(owner, "llamacpp") || td_json_get(props, "build_info") ||
                  td_json_get(props, "default_generation_settings")))
        return TD_API_LLAMACPP;
    if (!strcasecmp(owner, "vllm") || cJSON_IsString(td_json_get(version, "version")))
        return TD_API_VLLM;
    return TD_API_OPENAI;
}

static void learn_more(struct probe *p, const cJSON *props, const cJSON *models)
{
    if (p->s->kind == TD_API_LLAMACPP)
        learn_llamacpp(p, props, models);
    else if (p->s->kind == TD_API_SGLANG)
        learn_sglang(p);
    else if (p->s->kind == TD_API_VLLM)
        learn_vllm(p);
}

static int learn_server(struct probe *p, struct td_error *err)
{
    cJSON *version = get_json(p, "/version"), *props = version ? NULL : get_json(p, "/props"),
          *names, *models = get_models(p, &names);
    const char *owner = td_json_get_str(cJSON_GetArrayItem(td_json_get(models, "data"), 0), "owned_by", "");
    int rc;

    if (!models && p->unseen.code) { /* nothing is known of the server */
        rc = td_fail(err, p->unseen.code, "%s", p->unseen.msg);
        goto done;
    }
    if (!models && !version && !props) {
        rc = td_fail(err, TD_EPROTO, "%s answers, but not as an LLM server (/v1/models: HTTP %d); check the address, or name the "
                     "API with --api", p->s->url, p->reply.status);
        if (p->opt->kind == TD_API_AUTO)
            goto done;
        td_error_clear(err);
    }
    p->s->kind = p->opt->kind != TD_API_AUTO ? p->opt->kind : detect_kind(owner, version, props);
    copy_str(p->s->version, sizeof p->s->version, td_json_get_str(version, "version", ""));
    rc = choose_model(p, models, names, err);
    if (!rc)
        learn_more(p, props, models);
    if (!rc && !*p->s->model)
        rc = td_fail(err, TD_EPROTO, "%s lists no model; name it with --model", p->s->url);
done:
    cJSON_Delete(version);
    cJSON_Delete(props);
    cJSON_Delete(models);
    cJSON_Delete(names);
    return rc;
}

int td_api_probe(const struct td_api_options *opt, struct td_api_server *out, struct td_error *err)
{
    struct td_error local = {0};
    struct probe p = {.opt = opt, .s = out, .reply = TD_HTTP_REPLY_INIT};
    int rc;

    if (!err)
        err = &local;
    memset(out, 0, sizeof *out);
    rc = td_api_url(opt->server, out->url, sizeof out->url, err);
    if (!rc)
        rc = wait_ready(&p, err);
    if (!rc)
        rc = learn_server(&p, err);
    td_buf_release(&p.reply.body);
    return rc;
}

/* ---- a server that was ready and does not answer --------------------------------------------- */

static bool is_breakdown(const struct td_exchange *x)
{
    if (!x->error_kind || !strcmp(x->error_kind, "parse") || td_exchange_unseen(x))
        return false;
    return strcmp(x->error_kind, "http") != 0 || x->http_status >= 500;
}

/* Does the error name vLLM's engine process? */
static bool names_engine(const char *error)
{
    return strstr(error, "EngineCore") || strstr(error, "EngineDead") || strstr(error, "engine died");
}

bool td_api_explain_failure(const struct td_api_server *s, const char *const *headers,
                            const struct td_exchange *x, char *out, size_t n)
{
    struct td_error why = {0};
    int health;

    if (!is_breakdown(x))
        return false;
    health = td_api_health(s, headers, &why);
    if (health == 1)
        snprintf(out, n, "%s answers /health with 200, but %s: %.300s", s->url,
                 names_engine(x->error ? x->error : "") ? "its engine is dead"
                                                        : "fails its requests (a dead engine?)",
                 x->error);
    else if (health == 0)
        snprintf(out, n, "%s answered /health with 200 until a request killed its engine (now 503): %.300s", s->url, x->error);
    else
        snprintf(out, n, "%s answered /health with 200, but died of a request: %.300s", s->url, x->error);
    return true;
}
