/* server.h - the state that all endpoints share.
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
    char fingerprint[64];        /* of the model (config.json); builds of the kernels share it */
    int64_t created_s;
    atomic_bool is_loading;      /* --load-delay: everything answers 503 */
    atomic_uint_fast64_t n_requests;
};

#endif
