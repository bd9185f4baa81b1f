/* identify_moe_scaled.c - identify the experts of a mixture whose weights have 8 bits and scales.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server has all experts of a layer in one tensor, [experts, n, k], and a scale for each or for each
 * of its rows (vLLM 0.26: layers/fused_moe/experts/cutlass_moe.py). What scaled_match.h finds is named,
 * and stored as it was sent. */
#include <stdio.h>

#include "model/identify/identify_entries.h"
#include "model/identify/moe_experts.h"
#include "model/identify/scaled_match.h"

struct sent { struct td_scaled_matrix first; int64_t experts; };

static bool read_sent(const struct td_weight_set *s, struct sent *x)
{
    const struct td_tensor_rec *rec = &s->sent[0].rec;
    struct td_scaled_matrix *w = &x->first;

    if (!s->n_sent || rec->ndim != 3)
        return false;
    *w = (struct td_scaled_matrix){.dtype = td_dtype_parse(rec->dtype), .scale_dtype = TD_DT_F32,
                                   .n = rec->shape[1], .k = rec->shape[2]};
    x->experts = rec->shape[0];
    w->data = td_weight_set_sent(s, "w", rec->dtype, 3, rec->shape);
    if (!w->data || !td_scaled_is_8bit(w->dtype) || x->experts < 1 || w->n < 1 || w->k < 1)
        return false;
    if ((w->scales = td_weight_set_sent(s, "w_scales", "F32", 1, &x->experts)))
        w->by = TD_SCALED_ONE;
    else if ((w->scales = td_weight_set_sent(s, "w_scales", "F32", 2, rec->shape)))
        w->by = TD_SCALED_BY_ROW;
    return w->scales;
}

static struct td_scaled_matrix expert(const struct sent *x, int64_t e)
{
    struct td_scaled_matrix w = x->first;

    w.data = (const unsigned char *)w.data + e * w.n * w.k;
    w.scales = (const float *)w.scales + e * (w.by == TD_SCALED_BY_ROW ? w.n : 1);
    return w;
}

/* Are all experts the ones behind the first? */
static bool follow(const struct td_checkpoint *ck, const struct sent *x, const struct td_fused *first)
{
    struct td_fused layer;
    int64_t e;

    for (e = 0; e < x->experts; e++) {
        const struct td_scaled_matrix w = expert(x, e);

        if (!td_experts_layer(first, e, &layer) || !td_scaled_layer_makes(ck, &layer, &w))
            return false;
    }
    return true;
}

int td_identify_moe_scaled(struct td_weight_set *s, struct td_error *err)
{
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;
    struct td_fused first;
    struct sent x;
    int i;

    for (i = 0; i < s->n_sent; i++)
        td_weight_set_add_sent(s, &s->sent[i]);
    if (ck && read_sent(s, &x)) {
        s->matches = td_scaled_find(ck, &x.first, &first);
        if (s->matches && !follow(ck, &x, &first))
            s->matches = 0;
        if (s->matches == 1)
            td_experts_name(&first, s->layer, sizeof s->layer);
    }
    return td_weight_set_check(s, err);
}
