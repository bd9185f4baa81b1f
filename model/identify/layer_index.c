/* layer_index.c - the checkpoint that a server loaded: which of its layers has these very bytes?
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/layer_index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/checkpoint.h"
#include "model/gguf.h"

struct known { bool hashed; struct td_layer_index_key key; };
struct state { const char *name; void *p; void (*release)(void *); };
#define STATES 8

struct td_layer_index {
    char *path;
    struct td_checkpoint *ck;
    struct td_gguf *gguf;
    struct known *known;              /* [ck->n_layers] */
    struct state state[STATES];
};

static bool is_file(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode);
}

int td_layer_index_open(const char *path, struct td_layer_index **out, struct td_error *err)
{
    struct td_layer_index *l = calloc(1, sizeof *l);
    int rc = TD_OK;

    *out = NULL;
    if (!l || !(l->path = strdup(path)))
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory", path);
    else if (is_file(path))
        rc = td_gguf_open(path, &l->gguf, err);
    else
        rc = td_checkpoint_open(path, &l->ck, err);
    if (!rc && l->ck && !(l->known = calloc(l->ck->n_layers + 1, sizeof *l->known)))
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory", path);
    if (rc) {
        td_layer_index_close(l);
        return rc;
    }
    *out = l;
    return TD_OK;
}

void td_layer_index_close(struct td_layer_index *l)
{
    int i;

    if (!l)
        return;
    for (i = 0; i < STATES; i++)
        if (l->state[i].p)
            l->state[i].release(l->state[i].p);
    td_checkpoint_close(l->ck);
    td_gguf_close(l->gguf);
    free(l->known);
    free(l->path);
    free(l);
}

const char *td_layer_index_path(const struct td_layer_index *l)
{
    return l->path;
}

const struct td_checkpoint *td_layer_index_checkpoint(const struct td_layer_index *l)
{
    return l->ck;
}

const struct td_gguf *td_layer_index_gguf(const struct td_layer_index *l)
{
    return l->gguf;
}

void **td_layer_index_state(struct td_layer_index *l, const char *name, void (*release)(void *))
{
    int i;

    for (i = 0; i < STATES && l->state[i].name; i++)
        if (!strcmp(l->state[i].name, name))
            return &l->state[i].p;
    if (i == STATES)
        return NULL;
    l->state[i].name = name;
    l->state[i].release = release;
    return &l->state[i].p;
}

static bool same_sizes(const struct td_gptq_weight *w, const struct td_layer_index_key *key)
{
    return w->qweight && w->bits == key->bits && w->group_size == key->group_size &&
           w->k == key->k && w->n == key->n;
}

/* The hashes of a layer of the checkpoint, computed once. */
static const struct td_layer_index_key *hash_layer(struct known *known,
                                                   const struct td_gptq_weight *w)
{
    struct td_layer_index_key *key = &known->key;

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

int td_layer_index_find(struct td_layer_index *l, const struct td_layer_index_key *key,
                        const char **name)
{
    int found = 0;
    size_t i;

    *name = NULL;
    for (i = 0; l->ck && i < l->ck->n_layers; i++) {
        const struct td_checkpoint_layer *layer = &l->ck->layers[i];
        const struct td_layer_index_key *have;

        if (!same_sizes(&layer->weight, key))
            continue;
        have = hash_layer(&l->known[i], &layer->weight);
        if (!td_hash_eq(have->qweight, key->qweight) || !td_hash_eq(have->qzeros, key->qzeros) ||
            !td_hash_eq(have->scales, key->scales) || !td_hash_eq(have->g_idx, key->g_idx))
            continue;
        if (!found++)
            *name = layer->name;
    }
    return found;
}
