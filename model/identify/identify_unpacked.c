/* identify_unpacked.c - GPTQ weights whose run-time layout was undone: found in the checkpoint, named, referred to.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scales are compared as the server has them: it converts them to the type it computes in, to nearest even, as it loads them. */
#include "model/identify/identify_unpacked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/awq.h"
#include "model/checkpoint.h"

/* Of a layer of the checkpoint: all inputs from k0 on that w has, outputs [n0, n0 + n). */
struct part { const struct td_gptq_weight *w; int64_t k0, n0, n; };
struct found { struct td_fused layer; struct part part[TD_FUSED_PARTS]; bool whole, sorted; };

/* ---- comparing ----------------------------------------------------------------------------------------------------- */

static unsigned field(const uint32_t *words, int bits, int64_t i)
{
    return words[i * bits / 32] >> i * bits % 32 & ((1u << bits) - 1);
}

static int zero_of(const struct td_vllm_weight *w, int64_t g, int64_t n)
{
    return (int)field(w->qzeros + g * (w->n * w->bits / 32), w->bits, n) + w->zero_offset;
}

static int64_t first_group(const struct part *p)
{
    return p->w->groups == 1 ? 0 : p->k0 / p->w->group_size;
}

/* Row i of w, outputs n0 and on, and row r of the part. */
static bool same_row(const struct td_vllm_weight *w, int64_t i, int64_t n0, const struct part *p, int64_t r)
{
    const int pack = 32 / w->bits, a = (int)(i % pack) * w->bits, b = (int)(r % pack) * w->bits;
    const uint32_t *have = w->qweight + i / pack * w->n + n0, *want = p->w->qweight + r / pack * p->w->n + p->n0, mask = (1u << w->bits) - 1;
    int64_t j;

    for (j = 0; j < p->n; j++)
        if ((have[j] >> a & mask) != (want[j] >> b & mask))
            return false;
    return true;
}

/* Eight rows at a time, as AWQ has them turned into GPTQ's words. */
static bool same_rows_awq(const struct td_vllm_weight *w, int64_t n0, const struct part *p)
{
    const unsigned char *rows = (const unsigned char *)p->w->awq + p->k0 * p->w->n / 2;
    uint32_t *words = malloc((size_t)p->w->n * 4);
    bool same = words;
    int64_t i;

    for (i = 0; same && i < w->k / 8; i++) {
        td_awq_unpack_weight(8, p->w->n, rows + i * p->w->n * 4, words);
        same = !memcmp(&w->qweight[i * w->n + n0], words + p->n0, (size_t)p->n * 4);
    }
    free(words);
    return same;
}

static bool same_rows(const struct td_vllm_weight *w, int64_t n0, const struct part *p, const int32_t *perm)
{
    const int pack = 32 / w->bits;
    int64_t i;

    if (p->w->awq)
        return !perm && same_rows_awq(w, n0, p);
    for (i = 0; !perm && i < w->k / pack; i++)
        if (memcmp(&w->qweight[i * w->n + n0], &p->w->qweight[(p->k0 / pack + i) * p->w->n + p->n0], (size_t)p->n * 4))
            return false;
    for (i = 0; perm && i < w->k; i++)
        if (!same_row(w, i, n0, p, perm[i]))
            return false;
    return true;
}

static bool same_groups(const struct td_vllm_weight *w, int64_t n0, const struct part *p)
{
    int64_t g, i;

    for (g = 0; g < w->groups; g++)
        for (i = 0; i < p->n; i++) {
            int64_t from = first_group(p) + g, col = p->n0 + i;

            if (td_gptq_zero(p->w, from, col) != zero_of(w, g, n0 + i) ||
                td_dtype_bits(TD_DT_F16, p->w->scales, (size_t)(from * p->w->n + col), w->scale_dtype) != w->scales[g * w->n + n0 + i])
                return false;
        }
    return true;
}

static bool same_parts(const struct td_vllm_weight *w, const struct found *f, const int32_t *perm)
{
    int64_t n0 = 0;
    int i;

    for (i = 0; i < f->layer.n; n0 += f->part[i++].n)
        if (!same_rows(w, n0, &f->part[i], perm) || !same_groups(w, n0, &f->part[i]))
            return false;
    return true;
}

/* ---- rows that are sorted by group --------------------------------------------------------------------------------- */

/* order : the checkpoint's rows by group. perm becomes the order that w has them in, told by the first part's content. */
static bool match_rows(const struct td_vllm_weight *w, const struct part *p, const int32_t *order, unsigned char *used, int32_t *perm)
{
    const int64_t size = w->k / w->groups;
    int64_t i, j;

    for (i = 0; i < w->k; i++) {
        int64_t g = i / size;

        if (p->w->g_idx[order[i]] != g)    /* groups of other sizes */
            return false;
        for (j = g * size; j < (g + 1) * size; j++)
            if (!used[j] && same_row(w, i, 0, p, order[j]))
                break;
        if (j == (g + 1) * size)
            return false;
        used[j] = 1;
        perm[i] = order[j];
    }
    return true;
}

static bool same_sorted(const struct td_vllm_weight *w, const struct found *f)
{
    int32_t *order = malloc((size_t)w->k * sizeof *order), *perm = malloc((size_t)w->k * sizeof *perm);
    unsigned char *used = calloc((size_t)w->k, 1);
    bool same = false;

    if (order && perm && used) {
        td_gptq_argsort_groups(f->part[0].w, order);
        same = match_rows(w, &f->part[0], order, used, perm) && same_parts(w, f, perm);
    }
    free(order);
    free(perm);
    free(used);
    return same;
}

/* ---- finding ------------------------------------------------------------------------------------------------------- */

/* The layer's parts, if they fit together; the sum of their outputs, or 0. */
static int64_t take_parts(const struct td_checkpoint *ck, const struct td_vllm_weight *w, struct found *f)
{
    int64_t n = 0;
    int i;

    for (i = 0; i < f->layer.n; i++) {
        const struct td_gptq_weight *part = td_checkpoint_find(ck, f->layer.part[i]), *first = f->part[0].w;

        f->part[i] = (struct part){.w = part};
        if (!part || part->bits != w->bits || part->k % w->k || (part->groups > 1 || w->groups > 1 ? part->group_size != w->k / w->groups : 0))
            return 0;
        if (i && (part->k != first->k || !part->g_idx != !first->g_idx || (part->g_idx && memcmp(part->g_idx, first->g_idx, (size_t)part->k * 4))))
            return 0;
        n += part->n;
    }
    return n;
}

/* What rank `rank` has of it: of `ranks_n` that share the outputs, or `ranks_k` that share the inputs. */
static bool cut(const struct td_vllm_weight *w, struct found *f, int64_t ranks_n, int64_t ranks_k, int64_t rank)
{
    int i;

    for (i = 0; i < f->layer.n; i++) {
        struct part *p = &f->part[i];

        p->n = p->w->n / ranks_n;
        p->n0 = ranks_n > 1 ? rank * p->n : 0;
        p->k0 = ranks_k > 1 ? rank * w->k : 0;
        if (p->w->n % ranks_n || p->n * w->bits % 32) /* part of a word of zero points cannot be referred to */
            return false;
    }
    f->whole = ranks_n == 1 && ranks_k == 1;
    return true;
}

static bool same(const struct td_vllm_weight *w, struct found *f, int may)
{
    const struct td_gptq_weight *first = f->part[0].w;
    bool all_k = first->k == w->k;

    f->sorted = !w->g_idx && first->g_idx;
    if (f->sorted)
        return may & TD_IDENTIFY_SORTED && all_k && same_sorted(w, f);
    if (w->g_idx && (!all_k || !first->g_idx || memcmp(w->g_idx, first->g_idx, (size_t)w->k * 4)))
        return false;
    return same_parts(w, f, NULL);
}

/* How many cuts of the layer named in *f are w; *out, if there was none before, becomes the first. */
static void try_layer(const struct td_checkpoint *ck, const struct td_vllm_weight *w, struct found *f, int may, int *found, struct found *out)
{
    int64_t n = take_parts(ck, w, f), ranks_n = n / w->n, ranks_k = n ? f->part[0].w->k / w->k : 0, rank;

    if (!n || n % w->n || (ranks_n > 1 && ranks_k > 1) || ranks_n * ranks_k > TD_IDENTIFY_RANKS || (ranks_k > 1 && f->layer.n > 1))
        return;
    for (rank = 0; rank < ranks_n * ranks_k; rank++)
        if (cut(w, f, ranks_n, ranks_k, rank) && same(w, f, may) && !(*found)++)
            *out = *f;
}

static int find_layer(const struct td_checkpoint *ck, const struct td_vllm_weight *w, int may, struct found *out)
{
    struct found try;
    int found = 0;
    size_t i;

    for (i = 0; i < ck->n_layers; i++) {
        if (td_fused_single(ck->layers[i].name, &try.layer))
            try_layer(ck, w, &try, may, &found, out);
        if (td_fused_from(ck->layers[i].name, &try.layer))
            try_layer(ck, w, &try, may, &found, out);
    }
    return found;
}

/* ---- references ---------------------------------------------------------------------------------------------------- */

void td_identify_refer(struct td_identify *s, int at, const struct td_fused *layer, const char *tail, enum td_dtype from)
{
    struct td_tensor_rec *t = &s->t[at];
    char name[TD_FUSED_PARTS][TD_FUSED_NAME + 16];
    const char *names[TD_FUSED_PARTS];
    int i;

    for (i = 0; i < layer->n; i++) {
        snprintf(name[i], sizeof name[i], "%s.%s", layer->part[i], tail);
        names[i] = name[i];
    }
    td_identify_set_ref(t, td_layer_index_path(s->layers), names, layer->n, layer->n > 1 ? "stack" : NULL, td_hash_bytes(s->data[at], s->size[at]));
    if (td_layer_index_checkpoint(s->layers)->quant.awq && (!strcmp(tail, "qweight") || !strcmp(tail, "qzeros")))
        cJSON_InsertItemInArray(cJSON_GetObjectItemCaseSensitive(t->ref, "transforms"), 0, cJSON_CreateString(tail[1] == 'w' ? "awq-qweight" : "awq-qzeros"));
    if (from != td_dtype_parse(t->dtype))
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(t->ref, "transforms"), cJSON_CreateString(td_dtype_name(td_dtype_parse(t->dtype))));
}

static cJSON *range(int64_t from, int64_t count)
{
    return cJSON_CreateDoubleArray((const double[]){(double)from, (double)(from + count)}, 2);
}

/* Rows and columns of each part that t is made of; n_per outputs are one column of it. */
static void set_slice(struct td_tensor_rec *t, const struct found *f, int64_t (*row_of)(const struct part *), int64_t n_per)
{
    cJSON *all = cJSON_CreateArray();
    int i;

    for (i = 0; i < f->layer.n; i++) {
        const struct part *p = &f->part[i];
        cJSON *one = f->layer.n > 1 ? cJSON_CreateArray() : all;

        cJSON_AddItemToArray(one, range(row_of(p), t->shape[0]));
        cJSON_AddItemToArray(one, range(p->n0 / n_per, p->n / n_per));
        if (one != all)
            cJSON_AddItemToArray(all, one);
    }
    cJSON_ReplaceItemInObjectCaseSensitive(t->ref, "slice", all);
}

static int64_t first_word(const struct part *p)
{
    return p->k0 * p->w->bits / 32;
}

/* Tensors 0 to 2 are qweight, qzeros and scales, 3 may be g_idx. */
static void name_weight(struct td_identify *s, const struct found *f)
{
    int64_t pack = 32 / f->part[0].w->bits;

    if (!f->sorted)
        td_identify_refer(s, 0, &f->layer, "qweight", TD_DT_I32);
    td_identify_refer(s, 1, &f->layer, "qzeros", TD_DT_I32);
    td_identify_refer(s, 2, &f->layer, "scales", TD_DT_F16);
    if (!f->whole) {
        if (!f->sorted)
            set_slice(&s->t[0], f, first_word, 1);
        set_slice(&s->t[1], f, first_group, pack);
        set_slice(&s->t[2], f, first_group, 1);
    }
    if (s->n > 3) {
        struct td_fused first = f->layer;

        first.n = 1;               /* all parts have the same */
        td_identify_refer(s, 3, &first, "g_idx", TD_DT_I32);
    }
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", f->layer.layer);
}

/* ---- keeping ------------------------------------------------------------------------------------------------------- */

/* qzeros in the checkpoint's own form, which can hold the same zero points: none is 0 where 1 is taken off, none the largest where it is added. */
static void set_zero_offset(struct td_vllm_weight *w, int offset)
{
    const uint32_t ones = w->bits == 4 ? 0x11111111u : 0x01010101u;
    int64_t i;

    for (i = 0; i < w->groups * (w->n * w->bits / 32); i++)
        w->qzeros[i] += (uint32_t)(w->zero_offset - offset) * ones;
    w->zero_offset = offset;
}

static void keep(struct td_identify *s, const char *role, const char *dtype, int64_t rows, int64_t cols, void *data)
{
    struct td_tensor_rec *t = &s->t[s->n];

    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", role);
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    t->ndim = cols ? 2 : 1;
    t->shape[0] = rows, t->shape[1] = cols;
    t->strides[0] = cols ? cols : 1, t->strides[1] = cols ? 1 : 0;
    s->data[s->n] = s->owned[s->n] = data;
    s->size[s->n++] = (size_t)(rows * (cols ? cols : 1)) * td_dtype_size(td_dtype_parse(dtype));
}

static void keep_weight(struct td_identify *s, struct td_vllm_weight *w)
{
    keep(s, "qweight", "I32", w->k * w->bits / 32, w->n, w->qweight);
    keep(s, "qzeros", "I32", w->groups, w->n * w->bits / 32, w->qzeros);
    keep(s, "scales", td_dtype_name(w->scale_dtype), w->groups, w->n, w->scales);
    if (w->g_idx)
        keep(s, "g_idx", "I32", w->k, 0, w->g_idx);
    td_identify_add_attr(s, "zero_offset", w->zero_offset);
    td_identify_add_attr(s, "act_order", w->g_idx != NULL);
    memset(w, 0, sizeof *w);
}

int td_identify_unknown(int rc, struct td_error *err)
{
    if (!rc || rc == TD_ENOMEM)
        return rc;
    if (err)
        err->code = TD_EUNSUPPORTED;
    return TD_EUNSUPPORTED;
}

void td_identify_weight(struct td_identify *s, struct td_vllm_weight *w, int may)
{
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;
    struct found found;

    s->matches = ck ? find_layer(ck, w, may, &found) : 0;
    if (s->matches)
        set_zero_offset(w, found.part[0].w->zero_offset);
    keep_weight(s, w);
    if (s->matches)
        name_weight(s, &found);
}
