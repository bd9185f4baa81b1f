/* server.h - what the endpoints share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_SERVER_H
#define TD_DEMO_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "demo/server/engine.h"
#include "demo/server/fault.h"
#include "demo/server/httpd.h"
#include "demo/server/llama.h"
#include "demo/server/server_metrics.h"
#include "demo/server/request.h"
#include "demo/server/tokenizer.h"

struct td_server {
    struct td_llama *llama;
    struct td_tokenizer *tokenizer;
    struct td_engine *engine;
    struct td_server_metrics metrics;
    struct td_fault fault;
    struct td_request_model model;
    const char *model_dir;
    char fingerprint[64];        /* says what is served (config.json); two builds of the kernels share it */
    int64_t created_s;
    atomic_bool is_loading;      /* --load-delay: everything answers 503 */
    atomic_uint_fast64_t n_requests;
};

/* The td_httpd_handler of the server; user: struct td_server. */
void td_server_route(void *user, struct td_call *call);
/* POST /v1/completions and /v1/chat/completions. */
void td_server_generate(struct td_server *s, struct td_call *call, bool chat);
void td_server_fail(struct td_call *call, const struct td_api_error *e);
/* vLLM's check of the content type; false: answered. */
bool td_server_wants_json(struct td_call *call);

#endif
