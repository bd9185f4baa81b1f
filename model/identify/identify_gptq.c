/* identify_gptq.c - identify weights in the checkpoint's own GPTQ layout, by equal bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "model/gptq.h"
#include "model/identify/checkpoint_ref.h"
#include "model/identify/identify_entries.h"

enum { QWEIGHT, QZEROS, SCALES, G_IDX };

struct sizes { int64_t bits, group_size, groups, n, k; };

static bool has_form(const struct td_weight_set *s, int i, const char *role, const char *dtype,
                     int64_t rows, int64_t cols, int64_t elem)
{
    const struct td_weight_tensor *t = &s->sent[i];
    const struct td_tensor_rec *r = &t->rec;

    return t->data && !strcmp(r->role, role) && !strcmp(r->dtype, dtype) &&
           r->ndim == (cols ? 2 : 1) && r->shape[0] == rows && (!cols || r->shape[1] == cols) &&
           t->size == (uint64_t)(rows * (cols ? cols : 1) * elem);
}

/* Read the sizes from the attributes, and check that the tensors have them. */
static bool is_gptq(const struct td_weight_set *s, struct sizes *z)
{
    z->bits = td_weight_set_attr(s, "bits", 0),
    z->group_size = td_weight_set_attr(s, "group_size", 0);
    z->n = td_weight_set_attr(s, "n", 0), z->k = td_weight_set_attr(s, "k", 0);
    if ((z->bits != 4 && z->bits != 8) || z->n <= 0 || z->n > INT32_MAX || z->k <= 0 ||
        z->k > INT32_MAX)
        return false;
    if (z->group_size <= 0 || z->group_size > z->k)
        return false;
    z->groups = z->k / z->group_size;
    return (s->n_sent == 3 || s->n_sent == 4) &&
           has_form(s, QWEIGHT, "qweight", "I32", z->k * z->bits / 32, z->n, 4) &&
           has_form(s, QZEROS, "qzeros", "I32", z->groups, z->n * z->bits / 32, 4) &&
           has_form(s, SCALES, "scales", "F16", z->groups, z->n, 2) &&
           (s->n_sent == 3 || has_form(s, G_IDX, "g_idx", "I32", z->k, 0, 4));
}

static void refer_tensors(struct td_weight_set *s, const struct td_hash *hash, const char *layer)
{
    int i;

    for (i = 0; i < s->n; i++) {
        char name[600];
        const char *names[] = {name};

        snprintf(name, sizeof name, "%s.%s", layer, s->t[i].rec.role);
        td_checkpoint_ref_set(&s->t[i].rec, td_layer_index_path(s->layers), names, 1, NULL,
                              hash[i]);
    }
}

int td_identify_gptq(struct td_weight_set *s, struct td_error *err)
{
    struct td_hash hash[4] = {{0, 0}};
    struct td_layer_index_key key;
    const char *layer = NULL;
    bool act_order = false;
    struct sizes z;
    int i;

    if (!is_gptq(s, &z))
        return td_fail(err, TD_ECORRUPT, "weights that do not belong to the call");
    for (i = 0; i < s->n_sent; i++) {
        td_weight_set_add_sent(s, &s->sent[i]);
        hash[i] = td_hash_bytes(s->sent[i].data, s->sent[i].size);
    }
    if (s->n_sent == 4)
        act_order = !td_gptq_g_idx_is_trivial(s->sent[G_IDX].data, z.k, z.group_size);
    td_weight_set_add_attr(s, "act_order", act_order);
    key = (struct td_layer_index_key){.bits = (int)z.bits,
                                      .group_size = (int)z.group_size,
                                      .k = z.k,
                                      .n = z.n,
                                      .qweight = hash[QWEIGHT],
                                      .qzeros = hash[QZEROS],
                                      .scales = hash[SCALES]};
    if (act_order)
        key.g_idx = hash[G_IDX];
    if (s->layers)
        s->matches = td_layer_index_find(s->layers, &key, &layer);
    if (s->matches)
        refer_tensors(s, hash, layer);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer);
    return TD_OK;
}
