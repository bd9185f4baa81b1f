/* layer_index.h - the checkpoint that a server loaded: which of its layers has these very bytes?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel is called with pointers, not names. The checkpoint has the names; equal bytes join the
 * two. */
#ifndef TD_MODEL_IDENTIFY_LAYER_INDEX_H
#define TD_MODEL_IDENTIFY_LAYER_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

struct td_checkpoint;
struct td_gguf;
struct td_layer_index;

/* The content of a GPTQ weight. g_idx is zero where it is absent, or trivial: row / group_size for
 * every row. */
struct td_layer_index_key {
    int bits, group_size;
    int64_t k, n;
    struct td_hash qweight, qzeros, scales, g_idx;
};

/* Open a checkpoint: a folder with config.json and safetensors, or a GGUF file. Its tensors are
 * hashed once, when a weight of their shape is first looked for. */
int td_layer_index_open(const char *path, struct td_layer_index **out, struct td_error *err);
void td_layer_index_close(struct td_layer_index *l);             /* NULL is allowed */
const char *td_layer_index_path(const struct td_layer_index *l); /* as given */
/* The checkpoint itself: one of the two is not NULL. Borrowed until close. */
const struct td_checkpoint *td_layer_index_checkpoint(const struct td_layer_index *l);
const struct td_gguf *td_layer_index_gguf(const struct td_layer_index *l);

/* A slot for what an identifier remembers as long as the checkpoint is open. *slot is NULL at
 * first; release is called with what it holds at close.
 *   name : tells identifiers apart; static
 * NULL: eight others have a slot already. */
void **td_layer_index_state(struct td_layer_index *l, const char *name, void (*release)(void *));

/* Count the layers with this content. *name becomes the name of the first, valid until close; NULL
 * if there is none. If several layers have the same bytes, the weight may be any of them. One
 * thread at a time per index. */
int td_layer_index_find(struct td_layer_index *l, const struct td_layer_index_key *key,
                        const char **name);

#endif
