/* identify_norm.c - identify the weights of a norm: one vector, as the checkpoint has it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Servers convert 16-bit floats to the type that they compute in, to nearest even: so does the comparison. Norms whose
 * weights are equal, all ones for example, have no name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint.h"
#include "model/identify/checkpoint_ref.h"
#include "model/identify/identify_entries.h"

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_BF16 || dt == TD_DT_F16 || dt == TD_DT_F32;
}

static bool has_content(const struct td_st_tensor *t, enum td_dtype dtype, const uint8_t *bytes, int64_t n)
{
    const size_t size = td_dtype_size(dtype);
    int64_t i;

    for (i = 0; i < n; i++) {
        const uint32_t bits = td_dtype_bits(t->dtype, t->data, (size_t)i, dtype);

        if (memcmp(&bits, bytes + (size_t)i * size, size)) /* little-endian, as the file is */
            return false;
    }
    return true;
}

/* Count the vectors "<layer>.weight" of the checkpoint with this content; *first becomes the first of them. */
static int find_vectors(const struct td_checkpoint *ck, enum td_dtype dtype, const uint8_t *bytes, int64_t n,
                        const struct td_st_tensor **first, struct td_fused *layer)
{
    const size_t tail = strlen(".weight");
    int found = 0;
    size_t i;

    for (i = 0; i < td_safetensors_count(ck->tensors); i++) {
        const struct td_st_tensor *t = td_safetensors_at(ck->tensors, i);
        const size_t len = strlen(t->name);
        char name[TD_FUSED_NAME];

        if (t->ndim != 1 || t->shape[0] != n || !is_float(t->dtype) || !t->data || len <= tail || len - tail >= sizeof name ||
            strcmp(t->name + len - tail, ".weight") || !has_content(t, dtype, bytes, n))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - tail), t->name);
        if (found || td_fused_single(name, layer))
            *first = found++ ? *first : t;
    }
    return found;
}

int td_identify_norm(struct td_weight_set *s, struct td_error *err)
{
    const struct td_weight_tensor *w = s->n_sent == 1 ? &s->sent[0] : NULL;
    const enum td_dtype dtype = w ? td_dtype_parse(w->rec.dtype) : TD_DT_NONE;
    const void *bytes = w && w->rec.ndim == 1 ? td_weight_set_sent(s, "w", w->rec.dtype, 1, w->rec.shape) : NULL;
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;
    const struct td_st_tensor *first = NULL;
    struct td_fused layer;

    if (!is_float(dtype) || !bytes)
        return td_fail(err, TD_EUNSUPPORTED, "a norm's weight that is no vector of floats");
    s->matches = ck ? find_vectors(ck, dtype, bytes, w->rec.shape[0], &first, &layer) : 0;
    if (!td_weight_set_add_sent(s, w))
        return td_weight_set_check(s, err);
    if (first)
        td_checkpoint_ref_layer(s, 0, &layer, "weight", first->dtype);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer.layer);
    return TD_OK;
}
