/* identify_scaled.c - identify weights of 8 bits and their scales: what scaled_match.h finds is named,
 * and stored as it was sent.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "model/identify/identify_entries.h"
#include "model/identify/scaled_match.h"

static int64_t blocks(int64_t size)
{
    return (size + TD_SCALED_BLOCK - 1) / TD_SCALED_BLOCK;
}

static bool read_sent(const struct td_weight_set *s, struct td_scaled_matrix *w)
{
    const struct td_tensor_rec *rec = &s->sent[0].rec;
    const int64_t one = 1;

    *w = (struct td_scaled_matrix){.dtype = td_dtype_parse(rec->dtype),
                         .scale_dtype = TD_DT_F32,
                         .n = rec->shape[0],
                         .k = rec->shape[1]};
    w->data = td_weight_set_sent(s, "w", rec->dtype, 2, rec->shape);
    if (!w->data || !td_scaled_is_8bit(w->dtype) || w->n < 1 || w->k < 1)
        return false;
    if ((w->scales = td_weight_set_sent(s, "w_scales", "F32", 1, &one)))
        w->by = TD_SCALED_ONE;
    else if ((w->scales = td_weight_set_sent(s, "w_scales", "F32", 1, &w->n)))
        w->by = TD_SCALED_BY_ROW;
    else if ((w->scales = td_weight_set_sent(s, "w_scales", "F32", 2,
                                             (int64_t[]){blocks(w->n), blocks(w->k)})))
        w->by = TD_SCALED_BY_BLOCK;
    return w->scales;
}

int td_identify_scaled(struct td_weight_set *s, struct td_error *err)
{
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;
    struct td_fused first;
    struct td_scaled_matrix w;
    int rc = td_identify_float(s, err); /* the checkpoint's own bytes */

    if (rc || s->matches || !ck || !read_sent(s, &w))
        return rc;
    s->matches = td_scaled_find(ck, &w, &first);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", first.layer);
    return TD_OK;
}
