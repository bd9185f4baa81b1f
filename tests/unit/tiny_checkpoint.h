/* tiny_checkpoint.h - a very small Llama GPTQ checkpoint with pseudo-random weights, for unit tests of what loads one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The weights are made up; only their shape and layout are those of real checkpoints. */
#ifndef TD_TESTS_UNIT_TINY_CHECKPOINT_H
#define TD_TESTS_UNIT_TINY_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"
#include "model/dtype.h"

enum { TINY_HIDDEN = 64, TINY_FFN = 96, TINY_HEADS = 4, TINY_KV_HEADS = 2, TINY_HEAD_DIM = 16, TINY_VOCAB = 264, TINY_ROUTED = 8, TINY_CONTEXT = 64 };

/* 256 byte tokens in GPT-2's order, then 8 special words. */
static inline void tiny_tokenizer_json(struct td_buf *out)
{
    static const char *const special[] = {"<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>", "<|r0|>", "<|r1|>", "<|r2|>", "<|r3|>"};
    int id = 0, next = 256;

    td_buf_adds(out, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < 256; b++) {
            int printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
            if (printable == (pass == 0))
                td_buf_addf(out, "%s\"\\u%04x\":%d", id ? "," : "", printable ? b : next++, id), id++;
        }
    for (int i = 0; i < 8; i++)
        td_buf_addf(out, ",\"%s\":%d", special[i], 256 + i);
    td_buf_adds(out, "}}}");
}

/* What a test may spoil; zero gives a good checkpoint. */
struct tiny_spoil {
    const char *omit;      /* a tensor that is not written */
    const char *misshape;  /* a tensor that gets half its rows */
    const char *model_type;
    int truncate_bytes;    /* cut from the end of model.safetensors */
    int ffn;               /* instead of TINY_FFN, in the weights */
    int bits;              /* 8 instead of 4 */
    bool act_order;        /* rows of a group lie scattered */
    int experts;           /* so many, each with a gate, an up and a down, besides the layer's own */
    bool mixtral;          /* they are w1, w3 and w2 */
    bool one_group;        /* a scale for all inputs of an output; GPTQ's packing */
    bool awq;              /* AWQ's packing, any zero points */
};

struct tiny_writer {
    const struct tiny_spoil *spoil;
    struct td_buf header, data;
    uint64_t rng;
};

static inline uint32_t tiny_random(struct tiny_writer *w)
{
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->rng >> 32);
}

/* kind 'q' any bits, 'z' zero points 7 or 127 (stored), 's' scales near 0.02, 'n' norms near 1, 'e' embeddings, 'i' g_idx in order, 'p' of another order, 'o' of one group */
static inline void tiny_tensor(struct tiny_writer *w, const char *layer, const char *part, char kind, int d0, int d1)
{
    char name[128];
    int is_f16 = kind == 's' || kind == 'n' || kind == 'e', rows = d0;
    size_t start = w->data.len;

    snprintf(name, sizeof name, "%s%s", layer, part);
    if (w->spoil->omit && strcmp(name, w->spoil->omit) == 0)
        return;
    if (w->spoil->misshape && strcmp(name, w->spoil->misshape) == 0)
        rows /= 2;
    for (int i = 0; i < rows * (d1 ? d1 : 1); i++) {
        uint32_t word = kind == 'z' ? (w->spoil->bits == 8 ? 0x7f7f7f7fu : 0x77777777u) : kind == 'o' ? 0 : kind == 'i' ? (uint32_t)i / 32 : kind == 'p' ? (uint32_t)(i * 7 % d0) / 32 : tiny_random(w);
        float unit = (float)(word >> 8) / (float)(1 << 24);
        uint16_t h = td_f32_to_f16(kind == 's' ? 0.02f + 0.02f * unit : kind == 'n' ? 0.5f + unit : 2 * unit - 1);
        td_buf_add(&w->data, is_f16 ? (void *)&h : (void *)&word, is_f16 ? 2 : 4);
    }
    td_buf_addf(&w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d", w->header.len > 1 ? "," : "", name, is_f16 ? "F16" : "I32", rows);
    if (d1)
        td_buf_addf(&w->header, ",%d", d1);
    td_buf_addf(&w->header, "],\"data_offsets\":[%zu,%zu]}", start, w->data.len);
}

/* Groups of 32, but for one_group */
static inline void tiny_linear(struct tiny_writer *w, const char *layer, int k, int n)
{
    int pack = w->spoil->bits == 8 ? 4 : 8, groups = w->spoil->one_group ? 1 : k / 32;

    if (w->spoil->awq) {
        tiny_tensor(w, layer, ".qweight", 'q', k, n / 8);
        tiny_tensor(w, layer, ".qzeros", 'q', k / 32, n / 8);
        tiny_tensor(w, layer, ".scales", 's', k / 32, n);
        return;
    }
    tiny_tensor(w, layer, ".qweight", 'q', k / pack, n);
    tiny_tensor(w, layer, ".qzeros", 'z', groups, n / pack);
    tiny_tensor(w, layer, ".scales", 's', groups, n);
    tiny_tensor(w, layer, ".g_idx", w->spoil->one_group ? 'o' : w->spoil->act_order ? 'p' : 'i', k, 0);
}

static inline void tiny_experts(struct tiny_writer *w, int ffn)
{
    static const char *const parts[2][3] = {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};
    char name[96];

    for (int e = 0; e < w->spoil->experts; e++)
        for (int p = 0; p < 3; p++) {
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%d.%s", e, parts[w->spoil->mixtral][p]);
            tiny_linear(w, name, p < 2 ? TINY_HIDDEN : ffn, p < 2 ? ffn : TINY_HIDDEN);
        }
}

static inline int tiny_write(const char *dir, const char *file, const struct td_buf *text)
{
    char path[TD_PATH_MAX];

    return td_fs_join(path, sizeof path, dir, file, NULL) || td_fs_write_atomic(path, td_buf_str(text), text->len, NULL);
}

/* One layer, tied embeddings. dir exists. Returns 0 when everything was written. */
static inline int tiny_checkpoint_write(const char *dir, const struct tiny_spoil *spoil)
{
    struct tiny_writer w = {.spoil = spoil, .header = TD_BUF_INIT(1 << 20), .data = TD_BUF_INIT(8 << 20), .rng = 1};
    struct td_buf out = TD_BUF_INIT(8 << 20);
    int q = TINY_HEADS * TINY_HEAD_DIM, kv = TINY_KV_HEADS * TINY_HEAD_DIM, ffn = spoil->ffn ? spoil->ffn : TINY_FFN, failed;
    uint64_t n;

    td_buf_adds(&w.header, "{");
    tiny_linear(&w, "model.layers.0.self_attn.q_proj", TINY_HIDDEN, q);
    tiny_linear(&w, "model.layers.0.self_attn.k_proj", TINY_HIDDEN, kv);
    tiny_linear(&w, "model.layers.0.self_attn.v_proj", TINY_HIDDEN, kv);
    tiny_linear(&w, "model.layers.0.self_attn.o_proj", q, TINY_HIDDEN);
    tiny_linear(&w, "model.layers.0.mlp.gate_proj", TINY_HIDDEN, ffn);
    tiny_linear(&w, "model.layers.0.mlp.up_proj", TINY_HIDDEN, ffn);
    tiny_linear(&w, "model.layers.0.mlp.down_proj", ffn, TINY_HIDDEN);
    tiny_experts(&w, ffn);
    tiny_tensor(&w, "model.layers.0.input_layernorm", ".weight", 'n', TINY_HIDDEN, 0);
    tiny_tensor(&w, "model.layers.0.post_attention_layernorm", ".weight", 'n', TINY_HIDDEN, 0);
    tiny_tensor(&w, "model.norm", ".weight", 'n', TINY_HIDDEN, 0);
    tiny_tensor(&w, "model.embed_tokens", ".weight", 'e', TINY_VOCAB, TINY_HIDDEN);
    tiny_tensor(&w, "model.layers.0.mlp.router", ".weight", 'e', TINY_ROUTED, TINY_HIDDEN);
    td_buf_adds(&w.header, "}");
    while (w.header.len % 8)
        td_buf_addc(&w.header, ' ');
    n = w.header.len;
    td_buf_add(&out, &n, sizeof n);
    td_buf_add(&out, w.header.data, w.header.len);
    td_buf_add(&out, w.data.data, w.data.len);
    out.len -= (size_t)spoil->truncate_bytes;
    failed = tiny_write(dir, "model.safetensors", &out);
    td_buf_clear(&out);
    td_buf_addf(&out,
                "{\"model_type\":\"%s\",\"hidden_size\":%d,\"intermediate_size\":%d,\"num_hidden_layers\":1,\"num_attention_heads\":%d,"
                "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,\"max_position_embeddings\":%d,\"tie_word_embeddings\":true,"
                "\"eos_token_id\":256,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,\"quantization_config\":{\"quant_method\":\"%s\",\"bits\":%d,"
                "\"group_size\":%d,\"desc_act\":%s,\"sym\":true,\"checkpoint_format\":\"gptq\"}}",
                spoil->model_type ? spoil->model_type : "llama", TINY_HIDDEN, TINY_FFN, TINY_HEADS, TINY_KV_HEADS, TINY_HEAD_DIM, TINY_VOCAB,
                TINY_CONTEXT, spoil->awq ? "awq" : "gptq", spoil->bits == 8 ? 8 : 4, spoil->one_group ? -1 : 32, spoil->act_order ? "true" : "false");
    failed = failed || tiny_write(dir, "config.json", &out);
    td_buf_clear(&out);
    tiny_tokenizer_json(&out);
    failed = failed || tiny_write(dir, "tokenizer.json", &out);
    td_buf_release(&w.header);
    td_buf_release(&w.data);
    td_buf_release(&out);
    return failed;
}

#endif
