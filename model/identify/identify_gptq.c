/* identify_gptq.c - weights in the checkpoint's own GPTQ layout: named by their content.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "model/gptq.h"
#include "model/identify/identify.h"

enum { QWEIGHT, QZEROS, SCALES, G_IDX };

struct sizes { int64_t bits, group_size, groups, n, k; };

static bool is(const struct td_identify *s, int i, const char *role, const char *dtype, int64_t rows, int64_t cols, int64_t elem)
{
    const struct tap_tensor *t = &s->w[i];

    return s->bytes[i] && !strcmp(t->role, role) && !strcmp(t->dtype, dtype) && t->ndim == (cols ? 2 : 1) && t->shape[0] == rows && (!cols || t->shape[1] == cols) &&
           t->bytes == (uint64_t)(rows * (cols ? cols : 1) * elem);
}

/* Do the tensors belong to the attributes? */
static bool is_gptq(const struct td_identify *s, struct sizes *z)
{
    z->bits = td_identify_attr(s, "bits", 0), z->group_size = td_identify_attr(s, "group_size", 0);
    z->n = td_identify_attr(s, "n", 0), z->k = td_identify_attr(s, "k", 0);
    if ((z->bits != 4 && z->bits != 8) || z->n <= 0 || z->n > INT32_MAX || z->k <= 0 || z->k > INT32_MAX || z->group_size <= 0 || z->group_size > z->k)
        return false;
    z->groups = z->k / z->group_size;
    return (s->n_w == 3 || s->n_w == 4) && is(s, QWEIGHT, "qweight", "I32", z->k * z->bits / 32, z->n, 4) &&
           is(s, QZEROS, "qzeros", "I32", z->groups, z->n * z->bits / 32, 4) && is(s, SCALES, "scales", "F16", z->groups, z->n, 2) &&
           (s->n_w == 3 || is(s, G_IDX, "g_idx", "I32", z->k, 0, 4));
}

static void refer(struct td_identify *s, const struct td_hash *hash, const char *layer)
{
    int i;

    for (i = 0; i < s->n; i++) {
        char name[600];
        const char *names[] = {name};

        snprintf(name, sizeof name, "%s.%s", layer, s->t[i].role);
        td_identify_set_ref(&s->t[i], td_layer_index_path(s->layers), names, 1, NULL, hash[i]);
    }
}

int td_identify_gptq(struct td_identify *s, struct td_error *err)
{
    struct td_hash hash[4] = {{0, 0}};
    struct td_layer_index_key key;
    const char *layer = NULL;
    bool act_order = false;
    struct sizes z;
    int i;

    if (!is_gptq(s, &z))
        return td_fail(err, TD_ECORRUPT, "weights that do not belong to the call");
    for (i = 0; i < s->n_w; i++) {
        td_identify_as_sent(s, i);
        hash[i] = td_hash_bytes(s->bytes[i], s->w[i].bytes);
    }
    if (s->n_w == 4)
        act_order = !td_gptq_g_idx_is_trivial((const int32_t *)(const void *)s->bytes[G_IDX], z.k, z.group_size);
    td_identify_add_attr(s, "act_order", act_order);
    key = (struct td_layer_index_key){.bits = (int)z.bits, .group_size = (int)z.group_size, .k = z.k, .n = z.n, .qweight = hash[QWEIGHT], .qzeros = hash[QZEROS], .scales = hash[SCALES]};
    if (act_order)
        key.g_idx = hash[G_IDX];
    if (s->layers)
        s->matches = td_layer_index_find(s->layers, &key, &layer);
    if (s->matches)
        refer(s, hash, layer);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer);
    return TD_OK;
}
