/* api.c - vLLM, OpenAI and llama.cpp: find out which, and write their requests.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/progress.h"
#include "wire/client.h"
#include "wire/suite.h"

#define PROBE_MS 5000
#define SALT_MARK "\"cache_salt\":\"td-"
#define SALT_DIGITS 16

static const char *const NAMES[] = {"auto", "vllm", "openai", "llamacpp"};

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
    if (!strcasecmp(name, "sglang"))
        return td_fail(err, TD_EINVAL, "SGLang's own API is not supported yet; use --api openai, which it speaks too");
    return td_fail(err, TD_EINVAL, "no API \"%s\"; known are auto, vllm, openai, llamacpp", name);
}

/* Behind HOST: or [V6]: stands a number from 1 to 65535, or nothing does. */
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
    size_t len;

    if (!*rest || *rest == '/' || strpbrk(rest, " \t\r\n\"") || (!http && !https && strstr(server, "://")))
        return td_fail(err, TD_EINVAL, "\"%s\" is no server; give HOST:PORT or http://HOST:PORT", server);
    if (strchr(rest, '@'))
        return td_fail(err, TD_EINVAL, "no user name or password in --server: it would be written into the fixture; use "
                       "--header 'Authorization: …'");
    if (!port_is_sound(rest))
        return td_fail(err, TD_EINVAL, "\"%s\": no such port; a port is a number from 1 to 65535", server);
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
};

/* GET url + path. The status, or a TD_E* code. */
static int get(struct td_http_reply *r, const char *base, const char *path, const char *const *headers, struct td_error *err)
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
    int status = get(&p->reply, p->s->url, path, p->opt->headers, NULL);

    return status == 200 ? td_json_parse(td_buf_str(&p->reply.body), p->reply.body.len, NULL) : NULL;
}

static int health_of(struct td_http_reply *r, const struct td_api_server *s, const char *const *headers, struct td_error *err)
{
    int status = get(r, s->url, "/health", headers, err);

    if (status == 404 || status == 405 || status == 501)
        status = get(r, s->url, "/v1/models", headers, err);
    if (status == TD_ETIMEOUT)
        return 0; /* accepts, but is too busy to answer: loading */
    if (status < 0)
        return status;
    if (status == 401 || status == 403)
        return td_fail(err, TD_EPROTO, "%s asks for a key (HTTP %d); give it with --header 'Authorization: Bearer KEY'", s->url,
                       status);
    if (status == 502 || status == 503 || status == 504)
        return 0;
    if (status == 200)
        return 1;
    return td_fail(err, TD_EPROTO, "%s answers HTTP %d to /health; is this an LLM server?", s->url, status);
}

int td_api_health(const struct td_api_server *s, const char *const *headers, struct td_error *err)
{
    struct td_http_reply r = TD_HTTP_REPLY_INIT;
    int rc = health_of(&r, s, headers, err);

    td_buf_release(&r.body);
    return rc;
}

/* The server's own words about why it is not ready, for the timeout's sentence. */
static void loading_words(const struct td_http_reply *r, char *out, size_t n)
{
    cJSON *v = td_json_parse(td_buf_str(&r->body), r->body.len, NULL);

    snprintf(out, n, "%s", td_json_get_str(td_json_get(v, "error"), "message", "HTTP 503"));
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
        rc = health_of(&p->reply, p->s, o->headers, &why);
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
            loading_words(&p->reply, words, sizeof words), rc = td_fail(err, TD_ETIMEOUT,
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

static int choose_model(struct probe *p, const cJSON *models, struct td_error *err)
{
    const cJSON *data = td_json_get(models, "data"), *m, *found = NULL;
    char list[200] = "";

    cJSON_ArrayForEach(m, data) {
        const char *id = td_json_get_str(m, "id", "");
        size_t used = strlen(list);

        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", id);
        if (!found && (!p->opt->model || !strcmp(p->opt->model, id)))
            found = m;
    }
    if (p->opt->model)
        copy_str(p->s->model, sizeof p->s->model, p->opt->model);
    if (found) {
        copy_str(p->s->model, sizeof p->s->model, td_json_get_str(found, "id", ""));
        copy_str(p->s->root, sizeof p->s->root, td_json_get_str(found, "root", ""));
        p->s->max_model_len = td_json_get_i64(found, "max_model_len", td_json_get_i64(td_json_get(found, "meta"), "n_ctx", 0));
    } else if (p->opt->model && *list && p->s->kind != TD_API_LLAMACPP) {
        return td_fail(err, TD_EINVAL, "the server has no model \"%s\"; it lists: %s", p->opt->model, list);
    }
    return TD_OK;
}

static void learn_llamacpp(struct probe *p, const cJSON *props)
{
    int64_t n_ctx = td_json_get_i64(td_json_get(props, "default_generation_settings"), "n_ctx", 0);
    const char *path = td_json_get_str(props, "model_path", "");

    copy_str(p->s->version, sizeof p->s->version, td_json_get_str(props, "build_info", ""));
    if (*path == '/' && !*p->s->root) /* a relative one means a folder that we do not know */
        copy_str(p->s->root, sizeof p->s->root, path);
    if (n_ctx)
        p->s->max_model_len = n_ctx;
    if (!*p->s->model) {
        const char *slash = strrchr(path, '/');

        copy_str(p->s->model, sizeof p->s->model, slash ? slash + 1 : *path ? path : "model");
    }
}

static enum td_api_kind kind_by(struct probe *p, const char *owner, const cJSON *version, const cJSON *props)
{
    if (!strcasecmp(owner, "sglang")) {
        copy_str(p->s->note, sizeof p->s->note, "SGLang: its own API is not supported yet; asked as an OpenAI server");
        return TD_API_OPENAI;
    }
    if (props && (!strcasecmp(owner, "llamacpp") || td_json_get(props, "build_info") ||
                  td_json_get(props, "default_generation_settings")))
        return TD_API_LLAMACPP;
    if (!strcasecmp(owner, "vllm") || cJSON_IsString(td_json_get(version, "version")))
        return TD_API_VLLM;
    return TD_API_OPENAI;
}

static int learn(struct probe *p, struct td_error *err)
{
    cJSON *version = get_json(p, "/version"), *props = version ? NULL : get_json(p, "/props"), *models = get_json(p, "/v1/models");
    const char *owner = td_json_get_str(cJSON_GetArrayItem(td_json_get(models, "data"), 0), "owned_by", "");
    int rc;

    if (!models && !version && !props) {
        rc = td_fail(err, TD_EPROTO, "%s answers, but not as an LLM server (/v1/models: HTTP %d); check the address, or name the "
                     "API with --api", p->s->url, p->reply.status);
        if (p->opt->kind == TD_API_AUTO)
            return rc;
        td_error_clear(err);
    }
    p->s->kind = p->opt->kind != TD_API_AUTO ? p->opt->kind : kind_by(p, owner, version, props);
    copy_str(p->s->version, sizeof p->s->version, td_json_get_str(version, "version", ""));
    rc = choose_model(p, models, err);
    if (!rc && p->s->kind == TD_API_LLAMACPP)
        learn_llamacpp(p, props);
    if (!rc && !*p->s->model)
        rc = td_fail(err, TD_EPROTO, "%s lists no model; name it with --model", p->s->url);
    cJSON_Delete(version);
    cJSON_Delete(props);
    cJSON_Delete(models);
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
        rc = learn(&p, err);
    td_buf_release(&p.reply.body);
    return rc;
}

/* ---- requests ------------------------------------------------------------------------------------------------------- */

static void put_prompt(struct td_jw *w, const struct td_prompt *p)
{
    int32_t i;

    if (p->messages) {
        td_jw_value(w, "messages", p->messages);
    } else if (p->ids) {
        td_jw_arr(w, "prompt");
        for (i = 0; i < p->n_ids; i++)
            td_jw_i64(w, NULL, p->ids[i]);
        td_jw_end(w);
    } else {
        cJSON text = {.type = cJSON_String, .valuestring = p->text};

        td_jw_value(w, "prompt", &text);
    }
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

/* The part that every dialect of OpenAI's API knows. */
static void put_openai(struct td_jw *w, const struct td_api_server *s, const struct td_prompt *p, const struct td_sampling *m)
{
    int32_t k = m->logprobs, cap = p->messages ? 20 : 5;

    td_jw_cstr(w, "model", s->model);
    put_prompt(w, p);
    td_jw_i64(w, "max_tokens", p->max_tokens ? p->max_tokens : m->max_tokens);
    td_jw_num(w, "temperature", m->temperature);
    td_jw_num(w, "top_p", m->top_p);
    td_jw_num(w, "presence_penalty", 0);
    td_jw_num(w, "frequency_penalty", 0);
    td_jw_i64(w, "seed", m->seed);
    put_logprobs(w, p->messages != NULL, s->kind == TD_API_OPENAI && k > cap ? cap : k);
    td_jw_bool(w, "stream", m->stream);
    if (m->stream) {
        td_jw_obj(w, "stream_options");
        td_jw_bool(w, "include_usage", true);
        td_jw_end(w);
    }
}

static void put_vllm_extras(struct td_jw *w, const struct td_sampling *m)
{
    td_jw_i64(w, "top_k", -1);
    td_jw_num(w, "min_p", 0);
    td_jw_num(w, "repetition_penalty", 1);
    td_jw_bool(w, "ignore_eos", m->ignore_eos);
    td_jw_bool(w, "return_token_ids", true);
    td_jw_bool(w, "return_tokens_as_token_ids", true);
    td_jw_cstr(w, "cache_salt", "td-0000000000000000");
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

static void put_llamacpp_native(struct td_jw *w, const struct td_prompt *p, const struct td_sampling *m)
{
    put_prompt(w, p);
    td_jw_i64(w, "n_predict", p->max_tokens ? p->max_tokens : m->max_tokens);
    td_jw_num(w, "temperature", m->temperature);
    td_jw_num(w, "top_p", m->top_p);
    td_jw_num(w, "presence_penalty", 0);
    td_jw_num(w, "frequency_penalty", 0);
    td_jw_i64(w, "seed", m->seed);
    td_jw_i64(w, "n_probs", m->logprobs);
    td_jw_bool(w, "stream", m->stream);
}

int td_api_body(const struct td_api_server *s, const struct td_prompt *p, const struct td_sampling *smp,
                struct td_buf *out, const char **path, struct td_error *err)
{
    struct td_jw w;

    if (s->kind == TD_API_OPENAI && smp->ignore_eos)
        return td_fail(err, TD_EUNSUPPORTED, "a plain OpenAI server has no ignore_eos; leave --ignore-eos out");
    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    if (s->kind == TD_API_LLAMACPP && !p->messages) {
        *path = "/completion";
        put_llamacpp_native(&w, p, smp);
    } else {
        *path = p->messages ? "/v1/chat/completions" : "/v1/completions";
        put_openai(&w, s, p, smp);
    }
    if (s->kind == TD_API_LLAMACPP)
        put_llamacpp_extras(&w, smp);
    if (s->kind == TD_API_VLLM)
        put_vllm_extras(&w, smp);
    td_jw_end(&w);
    return out->failed ? td_fail(err, TD_ELIMIT, "the request for \"%s\" is too long", p->id) : TD_OK;
}

int td_api_resalt(char *body, size_t n, uint64_t value)
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

/* ---- facts ---------------------------------------------------------------------------------------------------------- */

cJSON *td_api_honoured(const struct td_api_server *s, const struct td_exchange *x)
{
    cJSON *h = cJSON_CreateObject();
    int64_t max_tokens = td_json_get_i64(x->request, "max_tokens", td_json_get_i64(x->request, "n_predict", -1));

    cJSON_AddBoolToObject(h, s->kind == TD_API_LLAMACPP ? "return_tokens" : "return_token_ids", x->token_ids != NULL);
    cJSON_AddBoolToObject(h, "token_ids_complete", x->ids_complete);
    cJSON_AddBoolToObject(h, "prompt_token_ids", x->n_prompt_ids > 0);
    cJSON_AddBoolToObject(h, "logprobs", x->logprobs != NULL);
    cJSON_AddNumberToObject(h, "top_logprobs", x->top_k);
    cJSON_AddBoolToObject(h, "usage", x->usage.completion_tokens >= 0);
    if (td_json_get_bool(x->request, "ignore_eos", false))
        cJSON_AddBoolToObject(h, "ignore_eos", x->n_tokens == max_tokens);
    return h;
}

static void fact(struct td_writer *w, const char *section, const char *key, cJSON *v)
{
    td_writer_fact(w, section, key, v);
    cJSON_Delete(v);
}

static void write_sampling(struct td_writer *w, const struct td_api_server *s, const struct td_sampling *m)
{
    fact(w, "sampling", "temperature", cJSON_CreateNumber(m->temperature));
    fact(w, "sampling", "top_p", cJSON_CreateNumber(m->top_p));
    if (s->kind != TD_API_OPENAI) {
        fact(w, "sampling", "top_k", cJSON_CreateNumber(s->kind == TD_API_VLLM ? -1 : 0));
        fact(w, "sampling", "min_p", cJSON_CreateNumber(0));
        fact(w, "sampling", "repetition_penalty", cJSON_CreateNumber(1));
    }
    fact(w, "sampling", "presence_penalty", cJSON_CreateNumber(0));
    fact(w, "sampling", "frequency_penalty", cJSON_CreateNumber(0));
    fact(w, "sampling", "seed", cJSON_CreateNumber((double)m->seed));
    fact(w, "sampling", "max_tokens", cJSON_CreateNumber(m->max_tokens));
    fact(w, "sampling", "logprobs", cJSON_CreateNumber(m->logprobs));
    fact(w, "sampling", "ignore_eos", cJSON_CreateBool(m->ignore_eos));
    fact(w, "sampling", "stream", cJSON_CreateBool(m->stream));
}

void td_api_write_facts(struct td_writer *w, const struct td_api_server *s, const struct td_sampling *smp,
                        const struct td_exchange *x)
{
    const char *fingerprint = x ? td_json_get_str(x->extra, "fingerprint", s->fingerprint) : s->fingerprint;

    td_writer_fact_str(w, "server", "kind", td_api_name(s->kind));
    td_writer_fact_str(w, "server", "url", s->url);
    td_writer_fact_str(w, "server", "version", s->version);
    td_writer_fact_str(w, "server", "model", s->model);
    if (*s->root)
        td_writer_fact_str(w, "server", "root", s->root);
    if (s->max_model_len)
        fact(w, "server", "max_model_len", cJSON_CreateNumber((double)s->max_model_len));
    if (*fingerprint)
        td_writer_fact_str(w, "server", "fingerprint", fingerprint);
    if (*s->note)
        td_writer_fact_str(w, "server", "note", s->note);
    if (x)
        fact(w, "server", "extras", td_api_honoured(s, x));
    write_sampling(w, s, smp);
}
