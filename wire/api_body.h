/* api_body.h - write the request body of each dialect, without fields that the server refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_API_BODY_H
#define TD_WIRE_API_BODY_H

#include <cjson/cJSON.h>

#include "wire/api.h"

const char *td_api_field_name(enum td_api_field f);          /* "return_token_ids" */

/* One prompt: a text, a chat or token ids. */
struct td_prompt {
    char *id, *category;      /* category "" when not given */
    char *text;               /* or NULL */
    cJSON *messages;          /* or NULL */
    int32_t *ids, n_ids;      /* or NULL */
    int32_t max_tokens;       /* 0: the run's default */
    int32_t concurrency;      /* >= 1 */
};

struct td_sampling {
    double temperature, top_p; /* 0 and 1: greedy */
    int64_t seed;
    int32_t max_tokens;
    int32_t logprobs;          /* K alternatives; 0: none */
    bool ignore_eos;
    bool stream;
};
#define TD_SAMPLING_DEFAULT {0.0, 1.0, 0, 64, 5, false, true}

/* Write the body for one prompt. *path: where to post it ("/v1/completions" …; static). All
 * sampling parameters are written, since servers have defaults of their own
 * (generation_config.json, llama.cpp's 0.8). vLLM gets return_token_ids, return_tokens_as_token_ids
 * and a cache_salt, llama.cpp return_tokens, n_probs and cache_prompt false. TD_EUNSUPPORTED: this
 * dialect cannot send this prompt. */
int td_api_write_body(const struct td_api_server *s, const struct td_prompt *p,
                      const struct td_sampling *smp, struct td_buf *out, const char **path,
                      struct td_error *err);
/* Learn from x, a failed exchange, which fields the server refuses. After HTTP 400 or 422 the
 * fields that the error names, else all that can be left out, are marked in s->without. True: some
 * were marked, so asking again may help. */
bool td_api_note_refusal(struct td_api_server *s, const struct td_exchange *x);
/* Copy a body (JSON text) without the fields that s refuses. Returns how many were left out; 0: out
 * is untouched. */
int td_api_strip_body(const struct td_api_server *s, const char *body, size_t n,
                      struct td_buf *out);
/* Give the cache_salt of a body a new value, made of `value` and of equal length, so that the
 * server's prefix cache does not skip the prefill of an equal prompt. Only salts written by
 * td_api_write_body() change. Returns how many did. */
int td_api_renew_salt(char *body, size_t n, uint64_t value);

#endif
