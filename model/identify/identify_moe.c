/* identify_moe.c - identify the experts of a mixture that vLLM repacked for its Marlin kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server has all experts of a layer in one tensor, and gate and up of an expert stacked; a
 * checkpoint has each expert's matrices by themselves. Source: vLLM 0.26,
 * vllm/model_executor/layers/fused_moe/oracle/int_wna16.py (the layouts, which are those of
 * model/marlin_layout.h expert by expert), vllm/model_executor/layers/fused_moe/layer.py (names).
 * Without zero points the type is symmetric (uint4b8, uint8b128). With act-order the kernel is given
 * the permutation by which rows were sorted: it is undone, and g_idx is the checkpoint's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gptq.h"
#include "model/identify/gptq_match.h"
#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"
#include "model/marlin_layout.h"

#define MAX_EXPERTS 4096
#define EXPERTS ".experts."

struct sent {
    const uint32_t *qweight, *qzeros;
    const uint16_t *scales, *bias;
    const int32_t *g_idx, *perm;
    enum td_dtype scale_dtype, bias_dtype;
};

/* All experts, unpacked; each array is a block of malloc's. */
struct experts {
    int64_t n, sizes_n, sizes_k, groups;
    int bits;
    uint32_t *qweight, *qzeros;
    uint16_t *scales, *bias;
    int32_t *g_idx;
};

/* How an expert was found in the checkpoint. */
struct found {
    int matches;                       /* of the first expert */
    struct td_gptq_match first;
};

/* ---- what was sent --------------------------------------------------------------------------- */

/* An optional tensor. False: it was sent in another form than the arguments say. */
static bool take(const struct td_weight_set *s, const char *role, const char *dtype, int ndim,
                 const int64_t *shape, const void **data)
{
    *data = td_weight_set_sent(s, role, dtype, ndim, shape);
    return *data || !td_weight_set_has(s, role);
}

static int read_sent(const struct td_weight_set *s, const struct experts *x, struct sent *in,
                     struct td_error *err)
{
    const int64_t words = x->sizes_n * x->bits / 32;
    const void *zeros, *g_idx, *perm;
    bool fits = take(s, "qzeros", "I32", 3, (int64_t[]){x->n, x->groups, words}, &zeros) &&
                take(s, "g_idx", "I32", 2, (int64_t[]){x->n, x->sizes_k}, &g_idx) &&
                take(s, "perm", "I32", 2, (int64_t[]){x->n, x->sizes_k}, &perm);

    in->qweight = td_weight_set_sent(s, "qweight", "I32", 3,
                                     (int64_t[]){x->n, x->sizes_k / TD_MARLIN_TILE_K,
                                                 x->sizes_n * x->bits / 2});
    in->scales = td_weight_set_sent_16bit(s, "scales", &in->scale_dtype, 3,
                                          (int64_t[]){x->n, x->groups, x->sizes_n});
    in->bias = td_weight_set_sent_16bit(s, "bias", &in->bias_dtype, 2, (int64_t[]){x->n, x->sizes_n});
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

static int unpack_expert(const struct experts *x, const struct sent *in, int64_t e,
                         struct td_gptq_unpacked *w, struct td_error *err)
{
    const int64_t words = w->k * w->bits / 32 * w->n, zeros = w->groups * (w->n * w->bits / 32);
    const int32_t *perm = in->perm ? in->perm + e * w->k : NULL;
    int rc = td_marlin_unrepack(w->bits, w->k, w->n, in->qweight + e * words, perm, w->qweight, err);

    w->scale_dtype = in->scale_dtype;
    if (!rc)
        rc = td_marlin_unpermute_scales(w->groups, w->n, in->scales + e * w->groups * w->n, w->scales, err);
    if (!rc && in->qzeros)
        rc = td_marlin_unpack_zeros(w->bits, w->groups, w->n, in->qzeros + e * zeros, w->qzeros, err);
    if (!in->qzeros)
        td_gptq_unpacked_set_symmetric(w);
    if (!rc && perm)
        rc = unsort_g_idx(w, in->g_idx + e * w->k, perm, err);
    if (!rc && in->bias)
        rc = td_marlin_unpermute_scales(1, w->n, in->bias + e * w->n, x->bias + e * w->n, err);
    return rc;
}

static void copy_expert(const struct experts *x, int64_t e, const struct td_gptq_unpacked *w)
{
    const size_t words = (size_t)(w->k * w->bits / 32 * w->n), scales = (size_t)(w->groups * w->n),
                 zeros = (size_t)(w->groups * (w->n * w->bits / 32));

    memcpy(x->qweight + (size_t)e * words, w->qweight, words * 4);
    memcpy(x->qzeros + (size_t)e * zeros, w->qzeros, zeros * 4);
    memcpy(x->scales + (size_t)e * scales, w->scales, scales * 2);
    if (w->g_idx)
        memcpy(x->g_idx + e * w->k, w->g_idx, (size_t)w->k * 4);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Split "model.layers.0.mlp.experts.3.gate_proj" before and behind the number. False: it is not the
 * name of an expert's layer. */
static bool split_name(const char *name, int *prefix, long *number, const char **tail)
{
    const char *at = strstr(name, EXPERTS);
    char *end;

    if (!at)
        return false;
    at += strlen(EXPERTS);
    *prefix = (int)(at - name);
    *number = strtol(at, &end, 10);
    *tail = end;
    return end > at && *end == '.' && *number >= 0 && *number < MAX_EXPERTS;
}

/* Is expert e, counted from the first one, the one that the checkpoint has at that place? */
static bool is_next(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                    const struct found *f, int64_t e)
{
    struct td_gptq_match match;
    struct td_fused layer;
    char name[TD_FUSED_NAME];
    const char *tail;
    long number;
    int prefix;

    if (!split_name(f->first.layer.part[0], &prefix, &number, &tail) ||
        snprintf(name, sizeof name, "%.*s%lld%s", prefix, f->first.layer.part[0],
                 (long long)number + (long long)e, tail) >= (int)sizeof name)
        return false;
    return (f->first.layer.n > 1 ? td_fused_from(name, &layer) : td_fused_single(name, &layer)) &&
           td_gptq_match_layer(ck, wanted, &layer, &match) > 0;
}

/* Look for the first expert among all layers, and for the others behind it. */
static void find_expert(struct td_weight_set *s, const struct td_gptq_unpacked *w, int64_t e,
                        struct found *f)
{
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;
    const struct td_gptq_wanted wanted = {.w = w};

    if (!ck)
        return;
    if (!e)
        f->matches = td_gptq_match_find(ck, &wanted, &f->first);
    if (f->matches && !is_next(ck, &wanted, f, e))
        f->matches = 0;
}

/* "model.layers.0.mlp.experts.gate_up_proj" */
static void set_name(struct td_weight_set *s, const struct found *f)
{
    const char *tail;
    long number;
    int prefix;

    s->matches = f->matches;
    if (f->matches == 1 && split_name(f->first.layer.layer, &prefix, &number, &tail))
        snprintf(s->layer, sizeof s->layer, "%.*s%s", prefix - 1, f->first.layer.layer, tail);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void release_experts(struct experts *x)
{
    free(x->qweight);
    free(x->qzeros);
    free(x->scales);
    free(x->bias);
    free(x->g_idx);
}

/* Sizes, and memory for all experts. */
static int begin_experts(const struct td_weight_set *s, const struct td_gptq_unpacked *one,
                         struct experts *x, struct td_error *err)
{
    x->n = td_weight_set_attr(s, "experts", 0);
    if (x->n < 1 || x->n > MAX_EXPERTS)
        return td_fail(err, TD_EINVAL, "a mixture of %lld experts", (long long)x->n);
    x->bits = one->bits, x->sizes_n = one->n, x->sizes_k = one->k, x->groups = one->groups;
    return TD_OK;
}

/* After read_sent(): what was sent is as large, so nothing overflows. */
static int make_room(struct experts *x, const struct sent *in, struct td_error *err)
{
    const size_t n = (size_t)x->n, words = (size_t)(x->sizes_k * x->bits / 32 * x->sizes_n),
                 zeros = (size_t)(x->groups * (x->sizes_n * x->bits / 32));

    x->qweight = malloc(n * words * 4);
    x->qzeros = malloc(n * zeros * 4);
    x->scales = malloc(n * (size_t)(x->groups * x->sizes_n) * 2);
    x->bias = in->bias ? malloc(n * (size_t)x->sizes_n * 2) : NULL;
    x->g_idx = in->perm ? malloc(n * (size_t)x->sizes_k * 4) : NULL;
    if (x->qweight && x->qzeros && x->scales && !x->bias == !in->bias && !x->g_idx == !in->perm)
        return TD_OK;
    return td_fail(err, TD_ENOMEM, "out of memory for %lld experts", (long long)x->n);
}

static int unpack_experts(struct td_weight_set *s, struct experts *x, const struct sent *in,
                          struct found *f, struct td_error *err)
{
    struct td_gptq_unpacked w;
    int64_t e;
    int rc = TD_OK;

    for (e = 0; e < x->n && !rc; e++) {
        rc = td_gptq_unpacked_init(&w, x->bits, x->sizes_n, x->sizes_k, x->groups, err);
        if (!rc)
            rc = unpack_expert(x, in, e, &w, err);
        if (!rc && (!e || f->matches))
            find_expert(s, &w, e, f);
        if (!rc)
            copy_expert(x, e, &w);
        td_gptq_unpacked_release(&w);
    }
    return rc;
}

/* The set takes the arrays. */
static void store_experts(struct td_weight_set *s, struct experts *x, const struct sent *in)
{
    const int64_t n = x->sizes_n, k = x->sizes_k;

    td_weight_set_add_stack(s, "qweight", "I32", x->n, k * x->bits / 32, n, x->qweight);
    td_weight_set_add_stack(s, "qzeros", "I32", x->n, x->groups, n * x->bits / 32, x->qzeros);
    td_weight_set_add_stack(s, "scales", td_dtype_name(in->scale_dtype), x->n, x->groups, n, x->scales);
    if (x->g_idx)
        td_weight_set_add_stack(s, "g_idx", "I32", x->n, k, 0, x->g_idx);
    if (x->bias)
        td_weight_set_add_stack(s, "bias", td_dtype_name(in->bias_dtype), x->n, n, 0, x->bias);
    td_weight_set_add_attr(s, "zero_offset", !in->qzeros);
    td_weight_set_add_attr(s, "act_order", x->g_idx != NULL);
    memset(x, 0, sizeof *x);
}

int td_identify_moe_marlin(struct td_weight_set *s, struct td_error *err)
{
    struct td_gptq_unpacked one = {0};
    struct experts x = {0};
    struct found f = {0};
    struct sent in = {0};
    int rc = td_identify_begin(s, "Marlin", &one, err);

    if (!rc)
        rc = begin_experts(s, &one, &x, err);
    td_gptq_unpacked_release(&one);
    if (!rc)
        rc = read_sent(s, &x, &in, err);
    if (!rc)
        rc = make_room(&x, &in, err);
    if (!rc)
        rc = unpack_experts(s, &x, &in, &f, err);
    if (!rc) {
        store_experts(s, &x, &in);
        set_name(s, &f);
    }
    release_experts(&x);
    return td_identify_unpack_error(rc, err);
}
