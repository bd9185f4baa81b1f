/* moe_experts.c - identify the experts of a mixture: unpack each, look for it, name them together.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source of the names: vLLM 0.26, vllm/model_executor/layers/fused_moe/layer.py. */
#include "model/identify/moe_experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gptq.h"
#include "model/identify/checkpoint_ref.h"
#include "model/identify/gptq_match.h"
#include "model/identify/identify_unpacked.h"

#define MAX_EXPERTS 4096
#define EXPERTS ".experts."

/* All experts, unpacked; each array is a block of malloc's. */
struct experts {
    struct td_experts_sizes sizes;
    uint32_t *qweight, *qzeros;
    uint16_t *scales, *bias;
    int32_t *g_idx;
};

/* How an expert was found in the checkpoint. */
struct found {
    int matches;                       /* of the first expert */
    struct td_gptq_match first;
    bool complete, same_zeros;         /* each is all of the checkpoint's; zero points are in its form */
};

bool td_experts_take(const struct td_weight_set *s, const char *role, const char *dtype, int ndim,
                     const int64_t *shape, const void **data)
{
    *data = td_weight_set_sent(s, role, dtype, ndim, shape);
    return *data || !td_weight_set_has(s, role);
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

bool td_experts_layer(const struct td_fused *first, int64_t e, struct td_fused *layer)
{
    char name[TD_FUSED_NAME];
    const char *tail;
    long number;
    int prefix;

    if (!split_name(first->part[0], &prefix, &number, &tail) ||
        snprintf(name, sizeof name, "%.*s%lld%s", prefix, first->part[0],
                 (long long)number + (long long)e, tail) >= (int)sizeof name)
        return false;
    return first->n > 1 ? td_fused_from(name, layer) : td_fused_single(name, layer);
}

void td_experts_name(const struct td_fused *first, char *name, size_t size)
{
    const char *tail;
    long number;
    int prefix;

    *name = 0;
    if (split_name(first->layer, &prefix, &number, &tail))
        snprintf(name, size, "%.*s%s", prefix - 1, first->layer, tail);
}

/* Is expert e, counted from the first one, the one that the checkpoint has at that place? */
static bool is_next(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                    struct found *f, int64_t e)
{
    struct td_gptq_match match;
    struct td_fused layer;

    if (!td_experts_layer(&f->first.layer, e, &layer) ||
        td_gptq_match_layer(ck, wanted, &layer, &match) < 1)
        return false;
    f->complete = (!e || f->complete) && match.unsliced;
    f->same_zeros = (!e || f->same_zeros) && match.part[0].w->zero_offset == wanted->w->zero_offset;
    return true;
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

/* ---- all of them ----------------------------------------------------------------------------- */

static void release_experts(struct experts *x)
{
    free(x->qweight);
    free(x->qzeros);
    free(x->scales);
    free(x->bias);
    free(x->g_idx);
}

/* Sizes: what the attributes of the op say. */
static int read_sizes(const struct td_weight_set *s, const char *kernel, struct td_experts_sizes *x,
                      struct td_error *err)
{
    struct td_gptq_unpacked one = {0};
    int rc = td_identify_begin(s, kernel, &one, err);

    *x = (struct td_experts_sizes){.experts = td_weight_set_attr(s, "experts", 0),
                                   .n = one.n, .k = one.k, .groups = one.groups, .bits = one.bits};
    td_gptq_unpacked_release(&one);
    if (!rc && (x->experts < 1 || x->experts > MAX_EXPERTS))
        rc = td_fail(err, TD_EINVAL, "a mixture of %lld experts", (long long)x->experts);
    return rc;
}

/* What was sent is as large, so nothing overflows. */
static int make_room(struct experts *x, const struct td_experts_sent *in, struct td_error *err)
{
    const struct td_experts_sizes *o = &x->sizes;
    const size_t n = (size_t)o->experts, words = (size_t)(o->k * o->bits / 32 * o->n),
                 zeros = (size_t)(o->groups * (o->n * o->bits / 32));

    x->qweight = malloc(n * words * 4);
    x->qzeros = malloc(n * zeros * 4);
    x->scales = malloc(n * (size_t)(o->groups * o->n) * 2);
    x->bias = in->bias ? malloc(n * (size_t)o->n * 2) : NULL;
    x->g_idx = in->g_idx ? malloc(n * (size_t)o->k * 4) : NULL;
    if (x->qweight && x->qzeros && x->scales && !x->bias == !in->bias && !x->g_idx == !in->g_idx)
        return TD_OK;
    return td_fail(err, TD_ENOMEM, "out of memory for %lld experts", (long long)o->experts);
}

static int unpack_experts(struct td_weight_set *s, const struct td_experts_layout *layout,
                          struct experts *x, const struct td_experts_sent *in, struct found *f,
                          struct td_error *err)
{
    const struct td_experts_sizes *o = &x->sizes;
    struct td_gptq_unpacked w;
    int64_t e;
    int rc = TD_OK;

    for (e = 0; e < o->experts && !rc; e++) {
        rc = td_gptq_unpacked_init(&w, o->bits, o->n, o->k, o->groups, err);
        w.scale_dtype = in->scale_dtype;
        if (!rc)
            rc = layout->unpack(o, in, e, &w, in->bias ? x->bias + e * o->n : NULL, err);
        if (!rc && (!e || f->matches))
            find_expert(s, &w, e, f);
        if (!rc)
            copy_expert(x, e, &w);
        td_gptq_unpacked_release(&w);
    }
    return rc;
}

/* The set takes the arrays. */
static void store_experts(struct td_weight_set *s, struct experts *x, const struct td_experts_sent *in)
{
    const int64_t count = x->sizes.experts, n = x->sizes.n, k = x->sizes.k, groups = x->sizes.groups,
                  bits = x->sizes.bits;

    td_weight_set_add_stack(s, "qweight", "I32", count, k * bits / 32, n, x->qweight);
    td_weight_set_add_stack(s, "qzeros", "I32", count, groups, n * bits / 32, x->qzeros);
    td_weight_set_add_stack(s, "scales", td_dtype_name(in->scale_dtype), count, groups, n, x->scales);
    if (x->g_idx)
        td_weight_set_add_stack(s, "g_idx", "I32", count, k, 0, x->g_idx);
    if (x->bias)
        td_weight_set_add_stack(s, "bias", td_dtype_name(in->bias_dtype), count, n, 0, x->bias);
    td_weight_set_add_attr(s, "zero_offset", in->qzeros ? in->zero_offset : 1);
    td_weight_set_add_attr(s, "act_order", x->g_idx != NULL);
    memset(x, 0, sizeof *x);
}

/* Refer tensor `role` to the tensors "<part>.<role>" of all experts. */
static void refer(struct td_weight_set *s, const struct td_fused *any, const char *role,
                  enum td_dtype from, int64_t number)
{
    int i;

    for (i = 0; i < s->n && strcmp(s->t[i].rec.role, role); i++)
        ;
    if (i == s->n)
        return;
    td_checkpoint_ref_layer(s, i, any, role, from);
    td_checkpoint_ref_experts(&s->t[i].rec, number, s->t[i].rec.shape[0]);
}

static void refer_experts(struct td_weight_set *s, const struct found *f)
{
    struct td_fused any = f->first.layer;
    const char *tail;
    long number = 0;
    int prefix, i;

    for (i = 0; i < any.n; i++)
        if (!split_name(f->first.layer.part[i], &prefix, &number, &tail) ||
            snprintf(any.part[i], sizeof any.part[i], "%.*s*%s", prefix, f->first.layer.part[i], tail) >=
                (int)sizeof any.part[i])
            return;
    refer(s, &any, "qweight", TD_DT_I32, number);
    refer(s, &any, "scales", TD_DT_F16, number);
    if (f->same_zeros)
        refer(s, &any, "qzeros", TD_DT_I32, number);
    any.n = 1;                         /* all parts have the same g_idx */
    refer(s, &any, "g_idx", TD_DT_I32, number);
}

int td_identify_experts(struct td_weight_set *s, const struct td_experts_layout *layout,
                        struct td_error *err)
{
    struct experts x = {0};
    struct found f = {0};
    struct td_experts_sent in = {0};
    int rc = read_sizes(s, layout->kernel, &x.sizes, err);

    if (!rc)
        rc = layout->read(s, &x.sizes, &in, err);
    if (!rc)
        rc = make_room(&x, &in, err);
    if (!rc)
        rc = unpack_experts(s, layout, &x, &in, &f, err);
    if (!rc) {
        store_experts(s, &x, &in);
        s->matches = f.matches;
        if (f.matches == 1)
            td_experts_name(&f.first.layer, s->layer, sizeof s->layer);
        if (s->matches && f.complete)
            refer_experts(s, &f);
    }
    release_experts(&x);
    return td_identify_unpack_error(rc, err);
}
