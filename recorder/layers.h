/* layers.h - name a layer by the content of its weights: which layer of a checkpoint has these very bytes?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel is called with pointers, not names. The checkpoint knows the names; equal bytes join the two. */
#ifndef TD_RECORDER_LAYERS_H
#define TD_RECORDER_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

struct td_layers;

/* What a server multiplies with. g_idx is zero where it says nothing (absent, or k / group_size for every row). */
struct td_layers_key {
    int bits, group_size;
    int64_t k, n;
    struct td_hash qweight, qzeros, scales, g_idx;
};

/* Open a checkpoint folder. Its tensors are hashed when a weight of their shape is looked for, once. */
int td_layers_open(const char *folder, struct td_layers **out, struct td_error *err);
void td_layers_close(struct td_layers *l);             /* NULL is allowed */
const char *td_layers_folder(const struct td_layers *l);

/* The layer's name in *name (valid until close). Returns how many layers have this content: 0 none (*name NULL), 1, or more: then
 * the bytes do not tell which it was, and *name is the first. Not thread-safe per l. */
int td_layers_find(struct td_layers *l, const struct td_layers_key *key, const char **name);

#endif
