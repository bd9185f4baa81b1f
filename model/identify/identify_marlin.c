/* identify_marlin.c - identify weights that vLLM repacked for its Marlin kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Without zero points the type is symmetric (uint4b8, uint8b128): the fixture gets qzeros of 8 or
 * 128 throughout, so that the op means what any gptq_gemm means. With act-order the rows of an
 * unsliced layer are sorted by group, and so are the columns of the A that the kernel gets: the op
 * is stored like that, without a g_idx. The operator (marlin_gemm) gets A as it is, and perm, by
 * which it sorts A's columns: then the rows are put back into the checkpoint's order. */
#include <stdlib.h>
#include <string.h>

#include "model/gptq.h"
#include "model/marlin_layout.h"
#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"

static int unpack_zeros(const struct td_weight_set *s, struct td_gptq_unpacked *w,
                        struct td_error *err)
{
    const int64_t words = w->n * w->bits / 32;
    const void *zeros;

    if (!td_weight_set_has(s, "qzeros")) {
        td_gptq_unpacked_set_symmetric(w);
        return TD_OK;
    }
    zeros = td_weight_set_sent(s, "qzeros", "I32", 2, (int64_t[]){w->groups, words});
    if (!zeros)
        return td_fail(err, TD_EINVAL,
                       "zero points of Marlin in another form than its arguments say");
    return td_marlin_unpack_zeros(w->bits, w->groups, w->n, zeros, w->qzeros, err);
}

/* Copy g_idx, which vLLM gives sorted: the rows of a group are together, in any order. Left out
 * when it is the trivial one.
 *   perm : row i of it is row perm[i] of the weight; NULL: they agree in order */
static int copy_g_idx(const struct td_weight_set *s, const int32_t *perm, struct td_gptq_unpacked *w,
                      struct td_error *err)
{
    const int32_t *g_idx = td_weight_set_sent(s, "g_idx", "I32", 1, (int64_t[]){w->k});
    int64_t i;

    if (!td_weight_set_has(s, "g_idx"))
        return TD_OK;
    for (i = 0; g_idx && i < w->k; i++)
        if (g_idx[i] < 0 || g_idx[i] >= w->groups)
            return td_fail(err, TD_EINVAL, "Marlin's g_idx[%lld] is %d, there are %lld groups",
                           (long long)i, g_idx[i], (long long)w->groups);
    if (!g_idx)
        return td_fail(err, TD_EINVAL, "Marlin's g_idx is not a number for each row");
    w->g_idx = malloc((size_t)w->k * sizeof *w->g_idx);
    if (!w->g_idx)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld rows", (long long)w->k);
    for (i = 0; i < w->k; i++)
        w->g_idx[perm ? perm[i] : i] = g_idx[i];
    if (td_gptq_g_idx_is_trivial(w->g_idx, w->k, w->k / w->groups)) {
        free(w->g_idx);
        w->g_idx = NULL;
    }
    return TD_OK;
}

/* *perm: the order in which the operator sorts A's columns; NULL: they are sorted, or need not be. */
static int find_perm(const struct td_weight_set *s, const struct td_gptq_unpacked *w,
                     const int32_t **perm, struct td_error *err)
{
    *perm = NULL;
    if (!td_weight_set_has(s, "perm"))
        return TD_OK;
    *perm = td_weight_set_sent(s, "perm", "I32", 1, (int64_t[]){w->k});
    if (!*perm || !td_weight_set_has(s, "g_idx"))
        return td_fail(err, TD_EINVAL, "Marlin's perm is not a number for each row beside a g_idx");
    return td_gptq_perm_check(*perm, w->k, err);
}

static int unpack(const struct td_weight_set *s, struct td_gptq_unpacked *w, struct td_error *err)
{
    const void *qweight = td_weight_set_sent(
        s, "qweight", "I32", 2, (int64_t[]){w->k / TD_MARLIN_TILE_K, w->n * w->bits / 2});
    const void *scales = td_weight_set_sent_16bit(s, "scales", &w->scale_dtype, 2,
                                                  (int64_t[]){w->groups, w->n});
    const int32_t *perm;
    int rc;

    if (!qweight || !scales)
        return td_fail(err, TD_EINVAL, "weights of Marlin in another form than its arguments say");
    rc = find_perm(s, w, &perm, err);
    if (!rc)
        rc = td_marlin_unrepack(w->bits, w->k, w->n, qweight, perm, w->qweight, err);
    if (!rc)
        rc = td_marlin_unpermute_scales(w->groups, w->n, scales, w->scales, err);
    if (!rc)
        rc = unpack_zeros(s, w, err);
    return rc ? rc : copy_g_idx(s, perm, w, err);
}

/* Add the bias, if one was sent. It lies permuted like the scales of one group. */
static int add_bias(struct td_weight_set *s, int64_t n, struct td_error *err)
{
    struct td_weight_tensor *t;
    enum td_dtype dtype;
    const void *data = td_weight_set_sent_16bit(s, "bias", &dtype, 1, &n);
    int i;

    for (i = 0; i < s->n_sent && strcmp(s->sent[i].rec.role, "bias"); i++)
        ;
    if (i == s->n_sent)
        return TD_OK;
    if (!data)
        return td_fail(err, TD_EINVAL, "Marlin's bias is not a number for each output");
    t = td_weight_set_add_sent(s, &s->sent[i]);
    if (!t)
        return td_weight_set_check(s, err);
    t->size = (size_t)n * 2;
    t->data = t->owned = malloc(t->size);
    if (!t->owned)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld outputs", (long long)n);
    return td_marlin_unpermute_scales(1, n, data, t->owned, err);
}

int td_identify_marlin(struct td_weight_set *s, struct td_error *err)
{
    const int rc = td_identify_by(s, "Marlin", unpack, true, err);

    return rc ? rc : td_identify_unpack_error(add_bias(s, td_weight_set_attr(s, "n", 0), err), err);
}
