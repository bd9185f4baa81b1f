/* layer_index.h - name a layer by the content of its weights: which layer of a checkpoint has these very bytes?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel is called with pointers, not names. The checkpoint knows the names; equal bytes join the two. */
#ifndef TD_RECORDER_LAYERS_H
#define TD_RECORDER_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

struct td_checkpoint;
struct td_gguf;
struct td_layers;

/* What a server multiplies with. g_idx is zero where it says nothing (absent, or k / group_size for every row). */
struct td_layers_key {
    int bits, group_size;
    int64_t k, n;
    struct td_hash qweight, qzeros, scales, g_idx;
};

/* Open a checkpoint: a folder with config.json and safetensors, or a GGUF file. Its tensors are hashed when a weight of their shape is looked
 * for, once. */
int td_layers_open(const char *path, struct td_layers **out, struct td_error *err);
void td_layers_close(struct td_layers *l);             /* NULL is allowed */
const char *td_layers_path(const struct td_layers *l); /* as given */
/* What it is: one of the two, the other is NULL. Borrowed until close. */
const struct td_checkpoint *td_layers_checkpoint(const struct td_layers *l);
const struct td_gguf *td_layers_gguf(const struct td_layers *l);

/* What a settler wants to keep as long as the checkpoint is open (hashes, a table): *state is NULL at first; release is called with it at close.
 * name tells settlers apart, static. NULL: eight others have one already. */
void **td_layers_state(struct td_layers *l, const char *name, void (*release)(void *));

/* The layer's name in *name (valid until close). Returns how many layers have this content: 0 none (*name NULL), 1, or more: then
 * the bytes do not tell which it was, and *name is the first. Not thread-safe per l. */
int td_layers_find(struct td_layers *l, const struct td_layers_key *key, const char **name);

#endif
