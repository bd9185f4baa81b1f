/* api_facts.c - write facts about the server, and how it was asked, into the manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/api_facts.h"

#include "common/json.h"

static void bool_fact(struct td_writer *w, const char *section, const char *key, bool value)
{
    cJSON *v = cJSON_CreateBool(value);

    td_writer_fact(w, section, key, v);
    cJSON_Delete(v);
}

static void write_sampling(struct td_writer *w, const struct td_api_server *s, const struct td_sampling *m)
{
    td_writer_fact_num(w, "sampling", "temperature", m->temperature);
    td_writer_fact_num(w, "sampling", "top_p", m->top_p);
    if (s->kind != TD_API_OPENAI) {
        td_writer_fact_num(w, "sampling", "top_k", s->kind == TD_API_LLAMACPP ? 0 : -1);
        td_writer_fact_num(w, "sampling", "min_p", 0);
        td_writer_fact_num(w, "sampling", "repetition_penalty", 1);
    }
    td_writer_fact_num(w, "sampling", "presence_penalty", 0);
    td_writer_fact_num(w, "sampling", "frequency_penalty", 0);
    td_writer_fact_num(w, "sampling", "seed", (double)m->seed);
    td_writer_fact_num(w, "sampling", "max_tokens", m->max_tokens);
    td_writer_fact_num(w, "sampling", "logprobs", m->logprobs);
    bool_fact(w, "sampling", "ignore_eos", m->ignore_eos);
    bool_fact(w, "sampling", "stream", m->stream);
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
        td_writer_fact_num(w, "server", "max_model_len", (double)s->max_model_len);
    if (*s->meta)
        td_writer_fact_str(w, "server", "model_meta", s->meta);
    if (*fingerprint)
        td_writer_fact_str(w, "server", "fingerprint", fingerprint);
    if (*s->note)
        td_writer_fact_str(w, "server", "note", s->note);
    write_sampling(w, s, smp);
}
