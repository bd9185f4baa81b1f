/* llama_load.c - read a checkpoint into the form that steps need.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo/server/llama.h"
#include "model/dtype.h"

static const char *const linear_name[TD_LIN_COUNT] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

/* 64-byte aligned, not cleared; NULL for out of memory. Freed with free(). */
static void *alloc_array(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 64)
        return NULL;
    return aligned_alloc(64, (bytes + 64) / 64 * 64);
}

/* A plain tensor as f32, from F16, BF16 or F32. */
static int load_f32(const struct td_llama *m, const char *name, int64_t d0, int64_t d1, float **out, struct td_error *err)
{
    const struct td_st_tensor *t = td_safetensors_find(m->ck->tensors, name);
    size_t count = (size_t)d0 * (size_t)(d1 < 0 ? 1 : d1);
    int rc;

    if (t && t->dtype != TD_DT_F16 && t->dtype != TD_DT_BF16 && t->dtype != TD_DT_F32)
        return td_fail(err, TD_EUNSUPPORTED, "%s: %s is of type %s; F16, BF16 and F32 are read",
                       m->ck->path, name, t->dtype_name);
    rc = td_safetensors_require(m->ck->tensors, name, t ? t->dtype : TD_DT_F16, d0, d1, &t, err);
    if (rc)
        return rc;
    *out = alloc_array(count, sizeof **out);
    if (!*out)
        return td_fail(err, TD_ENOMEM, "out of memory for %s", name);
    for (size_t i = 0; i < count; i++)
        (*out)[i] = (float)td_dtype_get(t->dtype, t->data, i);
    return TD_OK;
}

static int check_config(const struct td_llama *m, struct td_error *err)
{
    const struct td_checkpoint_config *c = &m->cfg;

    if (strcmp(c->model_type, "llama") != 0)
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: model_type is \"%s\"; the demo server runs \"llama\" only", m->ck->path,
                       c->model_type);
    if (!m->ck->quant.present)
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: not a GPTQ checkpoint (no quantization_config with quant_method gptq)",
                       m->ck->path);
    if (c->num_heads < 1 || c->num_kv_heads < 1 || c->num_heads % c->num_kv_heads || c->head_dim < 2 || c->head_dim % 2)
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: %d heads, %d key-value heads of size %d do not fit together",
                       m->ck->path, c->num_heads, c->num_kv_heads, c->head_dim);
    if (c->max_position < 2 || c->max_position > 1 << 17)
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: max_position_embeddings is %d; 2 to %d are possible", m->ck->path,
                       c->max_position, 1 << 17);
    return TD_OK;
}

static int load_linear(struct td_llama *m, int l, enum td_llama_linear which, int64_t k, int64_t n, struct td_error *err)
{
    char name[96];
    const struct td_gptq_weight *w;

    snprintf(name, sizeof name, "model.layers.%d.%s", l, linear_name[which]);
    w = td_checkpoint_find(m->ck, name);
    if (!w)
        return td_fail(err, TD_ENOTFOUND, "%s: there is no %s.qweight", m->ck->path, name);
    if (w->awq)
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: %s is in AWQ's packing; the demo server computes with GPTQ weights",
                       m->ck->path, name);
    if (w->k != k || w->n != n)
        return td_fail(err, TD_EINVAL,
                       "%s: %s is %lld x %lld (inputs x outputs), config.json wants %lld x %lld",
                       m->ck->path, name, (long long)w->k, (long long)w->n, (long long)k,
                       (long long)n);
    m->layer[l].linear[which] = w;
    return TD_OK;
}

static int load_layer(struct td_llama *m, int l, struct td_error *err)
{
    const struct td_checkpoint_config *c = &m->cfg;
    int64_t hidden = c->hidden_size, q = (int64_t)c->num_heads * c->head_dim, kv = (int64_t)c->num_kv_heads * c->head_dim;
    const int64_t shape[TD_LIN_COUNT][2] = {{hidden, q},
                                            {hidden, kv},
                                            {hidden, kv},
                                            {q, hidden},
                                            {hidden, c->intermediate_size},
                                            {hidden, c->intermediate_size},
                                            {c->intermediate_size, hidden}};
    char name[96];
    int rc = TD_OK;

    for (int i = 0; i < TD_LIN_COUNT && !rc; i++)
        rc = load_linear(m, l, (enum td_llama_linear)i, shape[i][0], shape[i][1], err);
    snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", l);
    if (!rc)
        rc = load_f32(m, name, hidden, -1, &m->layer[l].norm_attn, err);
    snprintf(name, sizeof name, "model.layers.%d.post_attention_layernorm.weight", l);
    if (!rc)
        rc = load_f32(m, name, hidden, -1, &m->layer[l].norm_mlp, err);
    return rc;
}

static int load_weights(struct td_llama *m, struct td_error *err)
{
    const struct td_checkpoint_config *c = &m->cfg;
    int rc = load_f32(m, "model.embed_tokens.weight", c->vocab_size, c->hidden_size, &m->embed, err);

    if (!rc)
        rc = load_f32(m, "model.norm.weight", c->hidden_size, -1, &m->norm, err);
    m->head = m->embed;
    if (!rc && !c->tie_word_embeddings)
        rc = load_f32(m, "lm_head.weight", c->vocab_size, c->hidden_size, &m->head, err);
    if (rc)
        return rc;
    m->layer = calloc((size_t)c->num_layers, sizeof *m->layer);
    if (!m->layer)
        return td_fail(err, TD_ENOMEM, "out of memory");
    for (int l = 0; l < c->num_layers && !rc; l++)
        rc = load_layer(m, l, err);
    return rc;
}

/* Angles in f32, as Hugging Face's LlamaRotaryEmbedding computes them. */
static int fill_rope(struct td_llama *m, struct td_error *err)
{
    int half = m->cfg.head_dim / 2, context = m->cfg.max_position;

    m->rope_cos = alloc_array((size_t)context * (size_t)half, sizeof(float));
    m->rope_sin = alloc_array((size_t)context * (size_t)half, sizeof(float));
    if (!m->rope_cos || !m->rope_sin)
        return td_fail(err, TD_ENOMEM, "out of memory");
    for (int i = 0; i < half; i++) {
        float freq = 1.0f / powf((float)m->cfg.rope_theta, (float)(2 * i) / (float)m->cfg.head_dim);
        for (int p = 0; p < context; p++) {
            m->rope_cos[p * half + i] = cosf((float)p * freq);
            m->rope_sin[p * half + i] = sinf((float)p * freq);
        }
    }
    return TD_OK;
}

static int alloc_scratch(struct td_llama *m, struct td_error *err)
{
    const struct td_checkpoint_config *c = &m->cfg;
    size_t rows = (size_t)m->max_rows, hidden = (size_t)c->hidden_size, ffn = (size_t)c->intermediate_size;
    size_t q = (size_t)c->num_heads * (size_t)c->head_dim, kv = (size_t)c->num_kv_heads * (size_t)c->head_dim;
    size_t widest = hidden > ffn ? hidden : ffn, context = (size_t)c->max_position;
    size_t cache = (size_t)m->max_slots * (size_t)c->num_layers * context * kv;
    bool ok;

    widest = widest > q ? widest : q;
    m->cache_k = alloc_array(cache, sizeof(float));
    m->cache_v = alloc_array(cache, sizeof(float));
    m->x = alloc_array(rows * hidden, sizeof(float));
    m->tmp = alloc_array(rows * widest, sizeof(float));
    m->attn = alloc_array(rows * q, sizeof(float));
    m->score = alloc_array(context, sizeof(float));
    m->a_hidden = alloc_array(rows * hidden, sizeof(uint16_t));
    m->a_attn = alloc_array(rows * q, sizeof(uint16_t));
    m->a_ffn = alloc_array(rows * ffn, sizeof(uint16_t));
    ok = m->cache_k && m->cache_v && m->x && m->tmp && m->attn && m->score && m->a_hidden && m->a_attn && m->a_ffn;
    for (int i = 0; i < TD_LIN_COUNT; i++) {
        m->c[i] = alloc_array(rows * (size_t)m->layer[0].linear[i]->n, sizeof(uint16_t));
        ok = ok && m->c[i];
    }
    return ok ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory for %d sequences of %d tokens", m->max_slots, c->max_position);
}

int td_llama_open(struct td_llama **out, const char *dir, int max_rows, int max_slots, struct td_error *err)
{
    struct td_llama *m = calloc(1, sizeof *m);
    int rc;

    *out = NULL;
    if (!m)
        return td_fail(err, TD_ENOMEM, "out of memory");
    m->max_rows = max_rows;
    m->max_slots = max_slots;
    rc = td_checkpoint_open(dir, &m->ck, err);
    if (!rc) {
        m->cfg = m->ck->config;
        rc = check_config(m, err);
    }
    if (!rc)
        rc = load_weights(m, err);
    if (!rc)
        rc = fill_rope(m, err);
    if (!rc)
        rc = alloc_scratch(m, err);
    if (rc) {
        td_llama_close(m);
        return rc;
    }
    *out = m;
    return TD_OK;
}

void td_llama_close(struct td_llama *m)
{
    if (!m)
        return;
    for (int l = 0; m->layer && l < m->cfg.num_layers; l++) {
        free(m->layer[l].norm_attn);
        free(m->layer[l].norm_mlp);
    }
    for (int i = 0; i < TD_LIN_COUNT; i++)
        free(m->c[i]);
    if (m->head != m->embed)
        free(m->head);
    free(m->embed);
    free(m->norm);
    free(m->rope_cos);
    free(m->rope_sin);
    free(m->layer);
    free(m->cache_k);
    free(m->cache_v);
    free(m->x);
    free(m->tmp);
    free(m->attn);
    free(m->score);
    free(m->a_hidden);
    free(m->a_attn);
    free(m->a_ffn);
    td_checkpoint_close(m->ck);
    free(m);
}
