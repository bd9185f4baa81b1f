/* layers.c - name a layer by the content of its weights.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/layers.h"

#include <stdbool.h>
#include <stdlib.h>

#include "model/checkpoint.h"

struct known { bool hashed; struct td_layers_key key; };

struct td_layers {
    struct td_checkpoint *ck;
    struct known *known;              /* [ck->n_layers] */
};

int td_layers_open(const char *folder, struct td_layers **out, struct td_error *err)
{
    struct td_layers *l = calloc(1, sizeof *l);
    int rc;

    *out = NULL;
    if (!l)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", folder);
    rc = td_checkpoint_open(folder, &l->ck, err);
    if (!rc && !(l->known = calloc(l->ck->n_layers + 1, sizeof *l->known)))
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory", folder);
    if (rc) {
        td_layers_close(l);
        return rc;
    }
    *out = l;
    return TD_OK;
}

void td_layers_close(struct td_layers *l)
{
    if (!l)
        return;
    td_checkpoint_close(l->ck);
    free(l->known);
    free(l);
}

const char *td_layers_folder(const struct td_layers *l)
{
    return l->ck->path;
}

static bool same_shape(const struct td_gptq_weight *w, const struct td_layers_key *key)
{
    return w->bits == key->bits && w->group_size == key->group_size && w->k == key->k && w->n == key->n;
}

static const struct td_layers_key *hash_layer(struct known *known, const struct td_gptq_weight *w)
{
    struct td_layers_key *key = &known->key;

    if (known->hashed)
        return key;
    key->qweight = td_hash_bytes(w->qweight, (size_t)(w->k * w->bits / 32 * w->n) * 4);
    key->qzeros = td_hash_bytes(w->qzeros, (size_t)(w->groups * (w->n * w->bits / 32)) * 4);
    key->scales = td_hash_bytes(w->scales, (size_t)(w->groups * w->n) * 2);
    if (w->g_idx)
        key->g_idx = td_hash_bytes(w->g_idx, (size_t)w->k * 4);
    known->hashed = true;
    return key;
}

int td_layers_find(struct td_layers *l, const struct td_layers_key *key, const char **name)
{
    int found = 0;
    size_t i;

    *name = NULL;
    for (i = 0; i < l->ck->n_layers; i++) {
        const struct td_checkpoint_layer *layer = &l->ck->layers[i];
        const struct td_layers_key *have;

        if (!same_shape(&layer->weight, key))
            continue;
        have = hash_layer(&l->known[i], &layer->weight);
        if (!td_hash_eq(have->qweight, key->qweight) || !td_hash_eq(have->qzeros, key->qzeros) || !td_hash_eq(have->scales, key->scales) ||
            !td_hash_eq(have->g_idx, key->g_idx))
            continue;
        if (!found++)
            *name = layer->name;
    }
    return found;
}
