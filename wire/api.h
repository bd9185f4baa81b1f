/* api.h - LLM servers and their dialects: detect which one a server speaks, and what it serves.
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

/* Members of a request body that only improve the recording. A server that refuses one is asked
 * without it. */
enum td_api_field { TD_FIELD_TOKEN_IDS, TD_FIELD_IDS_AS_TEXT, TD_FIELD_SALT, TD_FIELD_USAGE, TD_FIELD_TIMINGS, TD_N_FIELDS };
#define TD_API_GENERATE "/inference/v1/generate"             /* vLLM's tokens in, tokens out */

struct td_api_server {
    enum td_api_kind kind;     /* never AUTO once probed */
    char url[512];             /* "http://localhost:8000", no slash at the end */
    char version[128], model[256], fingerprint[128]; /* "" when unknown */
    char root[512];            /* path of its checkpoint, as the server reports it, or "" */
    int64_t max_model_len;     /* 0: unknown */
    char meta[160];            /* tells two models of one name apart, or "": "49152 vocab,
                                  134515008 params, 96576768 bytes, Q4_1" */
    bool generate;             /* the server has TD_API_GENERATE */
    unsigned without;          /* 1 << enum td_api_field: refused, so left out of bodies */
    char refusal[TD_N_FIELDS][160]; /* how the server put it */
    char note[160];            /* for the user, or "" */
};

struct td_api_options {
    const char *server;        /* "localhost:8000", "http://…", "https://…/prefix" */
    enum td_api_kind kind;     /* AUTO: to be detected */
    const char *model;         /* NULL: the first that the server lists */
    const char *const *headers;/* as td_client_options */
    int timeout_ms;            /* how long to wait for a model that loads */
    bool wait_unreachable;     /* also wait while nobody listens (the server was just started) */
    bool (*alive)(void *arg); void *alive_arg; /* false ends the wait with TD_ECRASH; or NULL */
    const volatile sig_atomic_t *stop;
};

/* Make a URL of "host:port" or a URL: "http://" in front, no "/" or "/v1" at the end. TD_EINVAL. */
int td_api_url(const char *server, char *out, size_t n, struct td_error *err);
/* Wait until the server answers and its model is loaded (503 while loading), then find out what it
 * is. TD_EIO: not reachable; TD_ETIMEOUT: still loading; TD_EPROTO: it answers, but is no LLM
 * server; TD_EINTR; TD_ECRASH. */
int td_api_probe(const struct td_api_options *opt, struct td_api_server *out, struct td_error *err);
/* GET /health, or what the dialect has instead, once: 1 ready, 0 loading, < 0 as td_api_probe(). */
int td_api_health(const struct td_api_server *s, const char *const *headers, struct td_error *err);

/* A server that was ready failed the request of x. Find out whether its engine is dead though
 * /health answers 200, or whether it died of the request, and put that into out as one sentence.
 * False: it only refused this request. */
bool td_api_explain_failure(const struct td_api_server *s, const char *const *headers,
                            const struct td_exchange *x, char *out, size_t n);

#endif
