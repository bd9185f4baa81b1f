/* checkpoint_ref.c - note beside a tensor where a checkpoint holds the same bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/checkpoint_ref.h"

#include <stdio.h>
#include <string.h>

#include "model/checkpoint.h"

void td_checkpoint_ref_set(struct td_tensor_rec *rec, const char *checkpoint,
                           const char *const *tensors, int n, const char *transform,
                           struct td_hash hash)
{
    cJSON *ref = cJSON_CreateObject(), *list;
    char hex[TD_HASH_HEX];
    int i;

    td_hash_hex(hash, hex);
    cJSON_AddStringToObject(ref, "checkpoint", checkpoint);
    list = cJSON_AddArrayToObject(ref, "tensors");
    for (i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(tensors[i]));
    cJSON_AddNullToObject(ref, "slice");
    list = cJSON_AddArrayToObject(ref, "transforms");
    if (transform)
        cJSON_AddItemToArray(list, cJSON_CreateString(transform));
    cJSON_AddStringToObject(ref, "hash", hex);
    cJSON_Delete(rec->ref);
    rec->ref = ref;
}

static cJSON *range_json(const struct td_ref_range *r)
{
    return cJSON_CreateDoubleArray((const double[]){(double)r->from, (double)(r->from + r->count)}, 2);
}

void td_checkpoint_ref_slice(struct td_tensor_rec *rec, const struct td_ref_range *rows,
                             const struct td_ref_range *cols, int n)
{
    cJSON *all = cJSON_CreateArray();
    int i;

    for (i = 0; i < n; i++) {
        cJSON *one = n > 1 ? cJSON_CreateArray() : all;

        cJSON_AddItemToArray(one, range_json(&rows[i]));
        cJSON_AddItemToArray(one, range_json(&cols[i]));
        if (one != all)
            cJSON_AddItemToArray(all, one);
    }
    cJSON_ReplaceItemInObjectCaseSensitive(rec->ref, "slice", all);
}

void td_checkpoint_ref_experts(struct td_tensor_rec *rec, int64_t from, int64_t count)
{
    cJSON_AddItemToObject(rec->ref, "experts", range_json(&(struct td_ref_range){from, count}));
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(rec->ref, "transforms"), cJSON_CreateString("experts"));
}

/* AWQ checkpoints pack their words in another order: a reader must undo that before anything
 * else. */
static const char *awq_transform(const struct td_layer_index *layers, const char *tail)
{
    if (!td_layer_index_checkpoint(layers)->quant.awq)
        return NULL;
    return !strcmp(tail, "qweight") ? "awq-qweight" : !strcmp(tail, "qzeros") ? "awq-qzeros" : NULL;
}

void td_checkpoint_ref_layer(struct td_weight_set *s, int at, const struct td_fused *layer,
                             const char *tail, enum td_dtype from)
{
    struct td_weight_tensor *t = &s->t[at];
    const char *names[TD_FUSED_PARTS], *awq = awq_transform(s->layers, tail);
    char name[TD_FUSED_PARTS][TD_FUSED_NAME + 16];
    cJSON *transforms;
    int i;

    for (i = 0; i < layer->n; i++) {
        snprintf(name[i], sizeof name[i], "%s.%s", layer->part[i], tail);
        names[i] = name[i];
    }
    td_checkpoint_ref_set(&t->rec, td_layer_index_path(s->layers), names, layer->n,
                          layer->n > 1 ? "stack" : NULL, td_hash_bytes(t->data, t->size));
    transforms = cJSON_GetObjectItemCaseSensitive(t->rec.ref, "transforms");
    if (awq)
        cJSON_InsertItemInArray(transforms, 0, cJSON_CreateString(awq));
    if (from != td_dtype_parse(t->rec.dtype))
        cJSON_AddItemToArray(transforms,
                             cJSON_CreateString(td_dtype_name(td_dtype_parse(t->rec.dtype))));
}
