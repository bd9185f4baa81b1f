/* checkpoint.h - a Llama checkpoint folder: config.json, its tensors, its GPTQ or AWQ layers by name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_CHECKPOINT_H
#define TD_MODEL_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "model/gptq.h"
#include "model/safetensors.h"

/* config.json. Numbers that the file does not give hold the default of Hugging Face's LlamaConfig; sizes without a
 * default are required (hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, vocab_size). */
struct td_checkpoint_config {
    char model_type[32];            /* "llama" */
    int hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads, head_dim;
    int vocab_size, max_position;
    double rms_norm_eps, rope_theta;
    bool tie_word_embeddings;
    int bos_token_id, eos_token_id; /* -1: none; the first one where a list is given */
};

/* quantization_config of config.json, else quantize_config.json. */
struct td_checkpoint_quant {
    bool present;                   /* false: not quantised, or by another method than GPTQ and AWQ */
    bool awq;                       /* its packing (model/awq.h); their qweight is NULL, awq is there */
    int bits, group_size;           /* group_size as written: -1 = the whole of k */
    bool desc_act, sym;
    int zero_offset;                /* 1: checkpoint_format "gptq" or none given; 0: "gptq_v2", AWQ */
};

struct td_checkpoint_layer {
    char *name;                     /* "model.layers.1.mlp.down_proj" */
    struct td_gptq_weight weight;
};

struct td_checkpoint {
    char *path;                     /* as given */
    struct td_checkpoint_config config;
    struct td_checkpoint_quant quant;
    struct td_safetensors *tensors; /* everything in the folder, for norms, embeddings ... */
    struct td_checkpoint_layer *layers; /* every quantised layer (every `<name>.qweight`), in order of names */
    size_t n_layers;
};

/* Open a folder. Every quantised layer is found and checked; the first that breaks a rule fails the whole, by name.
 * A folder without quantisation opens too, with no layers. */
int td_checkpoint_open(const char *folder, struct td_checkpoint **out, struct td_error *err);
void td_checkpoint_close(struct td_checkpoint *ck); /* NULL is allowed */

/* By name ("model.layers.1.mlp.down_proj"); NULL: no quantised layer of this checkpoint. Valid until close. */
const struct td_gptq_weight *td_checkpoint_find(const struct td_checkpoint *ck, const char *name);

#endif
