/* api_facts.c - what the manifest says of the server and of how it was asked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/api_facts.h"

#include "common/json.h"

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
        fact(w, "sampling", "top_k", cJSON_CreateNumber(s->kind == TD_API_LLAMACPP ? 0 : -1));
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
    if (*s->meta)
        td_writer_fact_str(w, "server", "model_meta", s->meta);
    if (*fingerprint)
        td_writer_fact_str(w, "server", "fingerprint", fingerprint);
    if (*s->note)
        td_writer_fact_str(w, "server", "note", s->note);
    write_sampling(w, s, smp);
}
