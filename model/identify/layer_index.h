/* layer_index.h - name a layer by the content of its weights: which layer of a checkpoint has these very bytes?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel is called with pointers, not names. The checkpoint knows the names; equal bytes join the two. */
#ifndef TD_MODEL_IDENTIFY_LAYER_INDEX_H
#define TD_MODEL_IDENTIFY_LAYER_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

struct td_checkpoint;
struct td_gguf;
struct td_layer_index;

/* What a server multiplies with. g_idx is zero where it says nothing (absent, or k / group_size for every row). */
struct td_layer_index_key {
    int bits, group_size;
    int64_t k, n;
    struct td_hash qweight, qzeros, scales, g_idx;
};

/* Open a checkpoint: a folder with config.json and safetensors, or a GGUF file. Its tensors are hashed when a weight of their shape is looked
 * for, once. */
int td_layer_index_open(const char *path, struct td_layer_index **out, struct td_error *err);
void td_layer_index_close(struct td_layer_index *l);             /* NULL is allowed */
const char *td_layer_index_path(const struct td_layer_index *l); /* as given */
/* What it is: one of the two, the other is NULL. Borrowed until close. */
const struct td_checkpoint *td_layer_index_checkpoint(const struct td_layer_index *l);
const struct td_gguf *td_layer_index_gguf(const struct td_layer_index *l);

/* What a settler wants to keep as long as the checkpoint is open (hashes, a table): *state is NULL at first; release is called with it at close.
 * name tells identify_table apart, static. NULL: eight others have one already. */
void **td_layer_index_state(struct td_layer_index *l, const char *name, void (*release)(void *));

/* The layer's name in *name (valid until close). Returns how many layers have this content: 0 none (*name NULL), 1, or more: then
 * the bytes do not tell which it was, and *name is the first. Not thread-safe per l. */
int td_layer_index_find(struct td_layer_index *l, const struct td_layer_index_key *key, const char **name);

#endif
