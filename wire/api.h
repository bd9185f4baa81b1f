/* api.h - the dialects of LLM servers: which one is this, what does it serve, how is it asked.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_API_H
#define TD_WIRE_API_H

#include <signal.h>

#include "common/buf.h"
#include "common/error.h"
#include "format/fixture.h"
#include "format/records.h"

enum td_api_kind { TD_API_AUTO, TD_API_VLLM, TD_API_OPENAI, TD_API_LLAMACPP, TD_API_SGLANG };
const char *td_api_name(enum td_api_kind kind);              /* "auto", "vllm", "openai", "llamacpp", "sglang" */
int td_api_parse(const char *name, enum td_api_kind *out, struct td_error *err); /* TD_EINVAL lists the names */

/* Members of a body that only make the recording better: a server that refuses one is asked without it. */
enum td_api_field { TD_FIELD_TOKEN_IDS, TD_FIELD_IDS_AS_TEXT, TD_FIELD_SALT, TD_FIELD_USAGE, TD_FIELD_TIMINGS, TD_N_FIELDS };
#define TD_API_GENERATE "/inference/v1/generate"             /* vLLM's tokens in, tokens out */

struct td_api_server {
    enum td_api_kind kind;     /* never AUTO once probed */
    char url[512];             /* "http://localhost:8000", no slash at the end */
    char version[128], model[256], fingerprint[128]; /* "" when unknown */
    char root[512];            /* where the server says its checkpoint is, or "" */
    int64_t max_model_len;     /* 0: unknown */
    char meta[160];            /* what tells two models of one name apart: "49152 vocab, 134515008 params, 96576768 bytes, Q4_1", or "" */
    bool generate;             /* TD_API_GENERATE is there */
    unsigned without;          /* 1 << enum td_api_field: refused, left out of its bodies */
    char refusal[TD_N_FIELDS][160]; /* in the server's words */
    char note[160];            /* what a person should know */
};

struct td_api_options {
    const char *server;        /* "localhost:8000", "http://…", "https://…/prefix" */
    enum td_api_kind kind;     /* AUTO: find out */
    const char *model;         /* NULL: the first that the server lists */
    const char *const *headers;/* as td_client_options */
    int timeout_ms;            /* how long to wait for a model that loads */
    bool wait_unreachable;     /* also wait while nobody listens (the server was just started) */
    bool (*alive)(void *arg); void *alive_arg; /* NULL, or asked while waiting: false ends it with TD_ECRASH */
    const volatile sig_atomic_t *stop;
};

/* "host:port" or a URL into out, "http://" put in front, "/" and "/v1" cut off the end. TD_EINVAL. */
int td_api_url(const char *server, char *out, size_t n, struct td_error *err);
/* Wait until the server answers and its model is loaded (503 while loading), then learn what it is. TD_EIO: not reachable
 * (cause, next step), TD_ETIMEOUT: still loading, TD_EPROTO: answers, but is no LLM server; TD_EINTR; TD_ECRASH. */
int td_api_probe(const struct td_api_options *opt, struct td_api_server *out, struct td_error *err);
/* One GET of /health or what stands for it: 1 ready, 0 loading, < 0 as td_api_probe. */
int td_api_health(const struct td_api_server *s, const char *const *headers, struct td_error *err);

/* Nobody answered, or with an error, what a server that was ready is asked: why, as one sentence, when its health says 200 all the
 * same, or when it died of the request. x: the failed exchange. false: it merely refused this request. */
bool td_api_explain_failure(const struct td_api_server *s, const char *const *headers,
                            const struct td_exchange *x, char *out, size_t n);

#endif
