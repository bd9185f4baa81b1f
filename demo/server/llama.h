/* llama.h - a Llama-type GPTQ model on the CPU: load it, and run steps.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A step is one forward pass over a batch of rows. Inputs and outputs of the linear layers are f16,
 * as on a GPU; all else (residual, norms, RoPE, KV cache, softmax, lm_head) is f32 in a fixed order
 * that sees one row only. If the same holds for the kernel, a row's logits are bit-identical
 * whatever else is in the batch and however the prompt is cut: equal greedy requests give equal
 * bytes. */
#ifndef TD_DEMO_SERVER_LLAMA_H
#define TD_DEMO_SERVER_LLAMA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "model/checkpoint.h"

enum td_llama_linear { TD_LIN_Q, TD_LIN_K, TD_LIN_V, TD_LIN_O, TD_LIN_GATE, TD_LIN_UP, TD_LIN_DOWN, TD_LIN_COUNT };

struct td_llama_layer {
    const struct td_gptq_weight *linear[TD_LIN_COUNT]; /* borrowed from the checkpoint */
    float *norm_attn, *norm_mlp;                       /* [hidden] */
};

struct td_llama {
    struct td_checkpoint *ck;
    struct td_checkpoint_config cfg; /* sizes; cfg.max_position is the context */
    int max_rows, max_slots;
    float *embed;                    /* [vocab, hidden] */
    float *head;                     /* [vocab, hidden]; embed itself when tied */
    float *norm;                     /* [hidden] */
    float *rope_cos, *rope_sin;      /* [context, head_dim / 2] */
    struct td_llama_layer *layer;
    float *cache_k, *cache_v;        /* [slot, layer, context, kv_heads * head_dim], after RoPE */
    /* Scratch of a step, allocated once. As in real servers, the f16 outputs are never cleared
     * between calls: after a kernel that does not write all of C, the rest holds the output of an
     * earlier call. */
    float *x, *tmp, *attn, *score;   /* [rows, hidden], [rows, widest], [rows, heads * head_dim], [context] */
    uint16_t *a_hidden, *a_attn, *a_ffn;                       /* inputs, f16 */
    uint16_t *c[TD_LIN_COUNT];                                 /* outputs, f16, [rows, n] */
    uint64_t n_gemms;                                          /* calls so far */
};

struct td_llama_row {
    int32_t token;     /* in 0..vocab-1 */
    int32_t slot;      /* whose KV cache */
    int32_t position;  /* in 0..context-1; rows of a slot come in ascending order, without gaps */
    bool wants_logits;
};

/* Load a checkpoint folder.
 *   max_rows : rows of a step      max_slots : sequences at once
 * Tensors that are missing or misshapen, and sizes that the kernels do not support, fail by
 * name. */
int td_llama_open(struct td_llama **out, const char *dir, int max_rows, int max_slots, struct td_error *err);
void td_llama_close(struct td_llama *m);

/* Run one step over n <= max_rows rows. K and V of each row enter the cache.
 *   logits : [rows that want them, vocab], in order of rows
 * NaN and Inf of the kernels reach the logits of their row. TD_EUNSUPPORTED: a kernel refused,
 * which the sentence names. */
int td_llama_step(struct td_llama *m, const struct td_llama_row *rows, int n, float *logits,
                  struct td_error *err);

#endif
