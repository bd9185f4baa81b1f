/* identify_moe.c - identify the experts of a mixture that vLLM repacked for its Marlin kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, vllm/model_executor/layers/fused_moe/oracle/int_wna16.py (the layouts, which are
 * those of model/marlin_layout.h expert by expert). Without zero points the type is symmetric
 * (uint4b8, uint8b128). With act-order the kernel is given the permutation by which rows were
 * sorted: it is undone, and g_idx is the checkpoint's. */
#include <stdlib.h>

#include "model/identify/identify_entries.h"
#include "model/identify/moe_experts.h"
#include "model/marlin_layout.h"

/* ---- what was sent --------------------------------------------------------------------------- */

static int read_sent(const struct td_weight_set *s, const struct td_experts_sizes *x,
                     struct td_experts_sent *in, struct td_error *err)
{
    const int64_t words = x->n * x->bits / 32;
    const void *zeros, *g_idx, *perm;
    bool fits = td_experts_take(s, "qzeros", "I32", 3, (int64_t[]){x->experts, x->groups, words}, &zeros) &&
                td_experts_take(s, "g_idx", "I32", 2, (int64_t[]){x->experts, x->k}, &g_idx) &&
                td_experts_take(s, "perm", "I32", 2, (int64_t[]){x->experts, x->k}, &perm);

    in->qweight = td_weight_set_sent(s, "qweight", "I32", 3,
                                     (int64_t[]){x->experts, x->k / TD_MARLIN_TILE_K, x->n * x->bits / 2});
    in->scales = td_weight_set_sent_16bit(s, "scales", &in->scale_dtype, 3,
                                          (int64_t[]){x->experts, x->groups, x->n});
    in->bias = td_weight_set_sent_16bit(s, "bias", &in->bias_dtype, 2, (int64_t[]){x->experts, x->n});
    if (!fits || !in->qweight || !in->scales || !g_idx != !perm ||
        (!in->bias && td_weight_set_has(s, "bias")))
        return td_fail(err, TD_EINVAL, "experts of Marlin in another form than their arguments say");
    in->qzeros = zeros, in->g_idx = g_idx, in->perm = perm;
    return TD_OK;
}

/* ---- an expert ------------------------------------------------------------------------------- */

/* g_idx as the checkpoint has it, of rows that lie sorted by it. perm is a permutation. */
static int unsort_g_idx(struct td_gptq_unpacked *w, const int32_t *sorted, const int32_t *perm,
                        struct td_error *err)
{
    int64_t i;

    w->g_idx = malloc((size_t)w->k * sizeof *w->g_idx);
    if (!w->g_idx)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld rows", (long long)w->k);
    for (i = 0; i < w->k; i++) {
        if (sorted[i] < 0 || sorted[i] >= w->groups)
            return td_fail(err, TD_EINVAL, "Marlin's g_idx[%lld] is %d, there are %lld groups",
                           (long long)i, sorted[i], (long long)w->groups);
        w->g_idx[perm[i]] = sorted[i];
    }
    return TD_OK;
}

static int unpack_expert(const struct td_experts_sizes *x, const struct td_experts_sent *in, int64_t e,
                         struct td_gptq_unpacked *w, uint16_t *bias, struct td_error *err)
{
    const int64_t words = w->k * w->bits / 32 * w->n, zeros = w->groups * (w->n * w->bits / 32);
    const int32_t *perm = in->perm ? in->perm + e * w->k : NULL;
    const uint32_t *q = in->qweight, *z = in->qzeros;
    int rc = td_marlin_unrepack(w->bits, w->k, w->n, q + e * words, perm, w->qweight, err);

    (void)x;
    if (!rc)
        rc = td_marlin_unpermute_scales(w->groups, w->n, in->scales + e * w->groups * w->n, w->scales, err);
    if (!rc && z)
        rc = td_marlin_unpack_zeros(w->bits, w->groups, w->n, z + e * zeros, w->qzeros, err);
    if (!z)
        td_gptq_unpacked_set_symmetric(w);
    if (!rc && perm)
        rc = unsort_g_idx(w, in->g_idx + e * w->k, perm, err);
    if (!rc && in->bias)
        rc = td_marlin_unpermute_scales(1, w->n, in->bias + e * w->n, bias, err);
    return rc;
}

int td_identify_moe_marlin(struct td_weight_set *s, struct td_error *err)
{
    static const struct td_experts_layout marlin = {"Marlin", read_sent, unpack_expert};

    return td_identify_experts(s, &marlin, err);
}
