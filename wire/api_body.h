/* api_body.h - the body that each dialect is asked with, and what is left out for a server that refuses a field.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_API_BODY_H
#define TD_WIRE_API_BODY_H

#include <cjson/cJSON.h>

#include "wire/api.h"

const char *td_api_field_name(enum td_api_field f);          /* "return_token_ids" */

struct td_prompt {
    char *id, *category;      /* category "" when not given */
    char *text;               /* one of three: a text … */
    cJSON *messages;          /* … a chat … */
    int32_t *ids, n_ids;      /* … or token ids */
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

/* The body for one prompt and the path to post it to ("/v1/completions" …; a string that lives for ever). Sampling is always
 * spelt out, since servers have defaults of their own (generation_config.json, llama.cpp's 0.8). vLLM gets return_token_ids,
 * return_tokens_as_token_ids and a cache_salt, llama.cpp return_tokens, n_probs and cache_prompt false.
 * TD_EUNSUPPORTED: this dialect cannot send this prompt. */
int td_api_write_body(const struct td_api_server *s, const struct td_prompt *p,
                      const struct td_sampling *smp, struct td_buf *out, const char **path,
                      struct td_error *err);
/* x was answered with 400 or 422. True: something that may be left out has been marked in `without` (what the error names, else all
 * there is), and asking again may help. */
bool td_api_note_refusal(struct td_api_server *s, const struct td_exchange *x);
/* A body (JSON text) without the members that s refuses, into out. Returns how many were taken out; 0: out is untouched. */
int td_api_strip_body(const struct td_api_server *s, const char *body, size_t n,
                      struct td_buf *out);
/* A cache_salt keeps a server's prefix cache from turning equal prefills into none. Give the salt of a body (ours, of equal
 * length) a new value made of `value`; bodies without one are left alone. Returns how many salts were written. */
int td_api_renew_salt(char *body, size_t n, uint64_t value);

#endif
