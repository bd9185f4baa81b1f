/* request.h - the body of a generation request, checked as vLLM checks it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_REQUEST_H
#define TD_DEMO_SERVER_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/buf.h"
#include "demo/server/sampler.h"
#include "demo/server/tokenizer.h"

/* What a client is told: status and the four members of vLLM's {"error": ...}. */
struct td_api_error {
    int status;          /* 0: none */
    const char *type;    /* "BadRequestError" ... */
    const char *param;   /* or NULL */
    char message[400];
};
/* Fill *e unless it is filled already; returns false, so that a check can end with it. */
bool td_api_fail(struct td_api_error *e, int status, const char *param, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void td_api_error_render(const struct td_api_error *e, struct td_buf *out);

/* The model as far as a request depends on it. */
struct td_request_model {
    const struct td_tokenizer *tokenizer;
    const char *name;    /* the served name */
    int context, vocab;
};

struct td_request {
    bool chat, stream, include_usage, continuous_usage;
    bool return_token_ids, tokens_as_ids, ignore_eos, skip_special;
    int n_logprobs;      /* -1: none; else alternatives per token */
    int n_prompt_logprobs; /* of the prompt's tokens: -1 none; else alternatives of each */
    int max_tokens, min_tokens;
    struct td_sampler sampling;
    int32_t *prompt;     /* malloc'd, [n_prompt], n_prompt >= 1 */
    int n_prompt;
};

/* Parse and check a body of /v1/completions or /v1/chat/completions. False: *e says why and *r holds nothing. */
bool td_request_parse(struct td_request *r, const struct td_request_model *model, bool chat, const char *body, size_t n,
                      struct td_api_error *e);
void td_request_release(struct td_request *r);

/* Parse a JSON object, check its "model". NULL: *e is filled. Freed with cJSON_Delete. */
cJSON *td_request_json(const struct td_request_model *model, const char *body, size_t n, struct td_api_error *e);
/* The prompt of a body ("prompt": text, ids, or a list with one of these; or "messages") as token ids, malloc'd; -1: *e. */
int td_request_prompt(const struct td_request_model *model, const cJSON *root, bool chat, int32_t **ids, struct td_api_error *e);

#endif
