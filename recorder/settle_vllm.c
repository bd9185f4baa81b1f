/* settle_vllm.c - weights as vLLM's CPU build has them at run time: unpacked, found in the checkpoint, named.
 * SPDX-License-Identifier: Apache-2.0
 *
 * 4-bit weights come with their bytes, packed (model/vllm_layout.h): they are kept in the checkpoint's layout and compared with it, column by
 * column, since q, k and v (gate and up) are one layer at run time. Weights behind a oneDNN handler come as a print only: their bytes are the
 * checkpoint's. vLLM converts 16-bit floats to the type it computes in, to nearest even, as it loads them: so does the comparison. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint.h"
#include "model/vllm_layout.h"
#include "recorder/layers_fused.h"
#include "recorder/settle.h"

/* ---- what they share ----------------------------------------------------------------------------------------------- */

/* Element i of an array of `from` as the bits that it has as `to`; both 16 or 32 bit floats. */
static uint32_t float_bits(enum td_dtype from, const void *base, size_t i, enum td_dtype to)
{
    uint32_t bits = 0;
    float f;

    if (from == to) {
        memcpy(&bits, (const uint8_t *)base + i * td_dtype_size(to), td_dtype_size(to));
        return bits;
    }
    f = (float)td_dtype_get(from, base, i);
    if (to == TD_DT_F32)
        memcpy(&bits, &f, 4);
    else
        bits = to == TD_DT_BF16 ? td_f32_to_bf16(f) : td_f32_to_f16(f);
    return bits;
}

/* t's reference: these tensors of the parts, stacked if they are several and converted if their type was another. */
static void refer(struct td_settle *s, int at, const struct td_fused *layer, const char *tail, enum td_dtype from)
{
    struct td_tensor_rec *t = &s->t[at];
    char name[TD_FUSED_PARTS][TD_FUSED_NAME + 16];
    const char *names[TD_FUSED_PARTS];
    int i;

    for (i = 0; i < layer->n; i++) {
        snprintf(name[i], sizeof name[i], "%s.%s", layer->part[i], tail);
        names[i] = name[i];
    }
    td_settle_set_ref(t, td_layers_path(s->layers), names, layer->n, layer->n > 1 ? "stack" : NULL, td_hash_bytes(s->data[at], s->size[at]));
    if (from != td_dtype_parse(t->dtype))
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(t->ref, "transforms"), cJSON_CreateString(td_dtype_name(td_dtype_parse(t->dtype))));
}

/* ---- 4-bit weights ------------------------------------------------------------------------------------------------- */

static unsigned zero_of(const struct td_vllm_weight *w, int64_t g, int64_t n)
{
    return (w->qzeros[g * (w->n / 8) + n / 8] >> n % 8 * 4 & 15) + (unsigned)w->zero_offset;
}

/* Are outputs [n0, n0 + part->n) of w this layer of the checkpoint? */
static bool same_columns(const struct td_vllm_weight *w, const struct td_gptq_weight *part, int64_t n0)
{
    int64_t g, i;

    for (i = 0; i < w->k / 8; i++)
        if (memcmp(&w->qweight[i * w->n + n0], &part->qweight[i * part->n], (size_t)part->n * 4))
            return false;
    for (g = 0; g < w->groups; g++)
        for (i = 0; i < part->n; i++)
            if (td_gptq_zero(part, g, i) != (int)zero_of(w, g, n0 + i) ||
                float_bits(TD_DT_F16, part->scales, (size_t)(g * part->n + i), w->scale_dtype) != w->scales[g * w->n + n0 + i])
                return false;
    return true;
}

static bool same_layer(const struct td_checkpoint *ck, const struct td_vllm_weight *w, const struct td_fused *layer)
{
    const struct td_gptq_weight *part[TD_FUSED_PARTS];
    int64_t n = 0;
    int i;

    for (i = 0; i < layer->n; i++) {
        part[i] = td_checkpoint_find(ck, layer->part[i]);
        if (!part[i] || part[i]->bits != 4 || part[i]->k != w->k || part[i]->groups != w->groups || part[i]->g_idx || part[i]->n > w->n - n)
            return false;
        n += part[i]->n;
    }
    for (i = 0, n = n == w->n ? 0 : -1; i < layer->n && n >= 0; n += part[i++]->n)
        if (!same_columns(w, part[i], n))
            return false;
    return n == w->n;
}

/* How many layers, alone or stacked, have this content; the first. */
static int find_layer(const struct td_checkpoint *ck, const struct td_vllm_weight *w, struct td_fused *out)
{
    struct td_fused try;
    int found = 0;
    size_t i;

    for (i = 0; i < ck->n_layers; i++) {
        if (td_fused_single(ck->layers[i].name, &try) && same_layer(ck, w, &try) && !found++)
            *out = try;
        if (td_fused_from(ck->layers[i].name, &try) && same_layer(ck, w, &try) && !found++)
            *out = try;
    }
    return found;
}

/* qzeros in the checkpoint's own form, which can hold the same zero points. */
static void set_zero_offset(struct td_vllm_weight *w, int offset)
{
    int64_t i;

    for (i = 0; i < w->groups * (w->n / 8); i++)
        w->qzeros[i] += (uint32_t)(w->zero_offset - offset) * 0x11111111u; /* no zero point is 0 where 1 is taken off, none 15 where it is added */
    w->zero_offset = offset;
}

static void keep(struct td_settle *s, const char *role, const char *dtype, int64_t rows, int64_t cols, void *data, size_t size)
{
    struct td_tensor_rec *t = &s->t[s->n];

    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", role);
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    t->ndim = 2;
    t->shape[0] = rows, t->shape[1] = cols;
    t->strides[0] = cols, t->strides[1] = 1;
    s->data[s->n] = s->owned[s->n] = data;
    s->size[s->n++] = size;
}

/* The result takes w's arrays over. */
static void keep_weight(struct td_settle *s, const struct td_vllm_weight *w)
{
    keep(s, "qweight", "I32", w->k / 8, w->n, w->qweight, (size_t)(w->k / 8 * w->n) * 4);
    keep(s, "qzeros", "I32", w->groups, w->n / 8, w->qzeros, (size_t)(w->groups * (w->n / 8)) * 4);
    keep(s, "scales", td_dtype_name(w->scale_dtype), w->groups, w->n, w->scales, (size_t)(w->groups * w->n) * 2);
    td_settle_add_attr(s, "zero_offset", w->zero_offset);
    td_settle_add_attr(s, "act_order", 0);
}

static void name_weight(struct td_settle *s, const struct td_fused *layer)
{
    refer(s, 0, layer, "qweight", TD_DT_I32);
    refer(s, 1, layer, "qzeros", TD_DT_I32);
    refer(s, 2, layer, "scales", TD_DT_F16);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer->layer);
}

/* Finds the layer, keeps w and what came beside it. */
static int settle_weight(struct td_settle *s, struct td_vllm_weight *w)
{
    const struct td_checkpoint *ck = s->layers ? td_layers_checkpoint(s->layers) : NULL;
    struct td_fused layer;
    int i;

    s->matches = ck ? find_layer(ck, w, &layer) : 0;
    if (s->matches)
        set_zero_offset(w, td_checkpoint_find(ck, layer.part[0])->zero_offset);
    keep_weight(s, w);
    if (s->matches)
        name_weight(s, &layer);
    for (i = 0; i < s->n_w; i++)
        if (!strcmp(s->w[i].role, "bias"))
            td_settle_as_sent(s, i);
    return TD_OK;
}

static bool has_form(const struct tap_tensor *t, const char *dtype, int ndim, const int64_t *shape)
{
    uint64_t bytes = td_dtype_size(td_dtype_parse(dtype));
    int i;

    for (i = 0; i < ndim; i++)
        bytes *= (uint64_t)shape[i];
    return !strcmp(t->dtype, dtype) && t->ndim == ndim && !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) && t->bytes == bytes;
}

/* The tensor of this role, as it was sent, if it has this form and is dense. */
static const void *sent(const struct td_settle *s, const char *role, const char *dtype, int ndim, const int64_t *shape)
{
    int i;

    for (i = 0; i < s->n_w; i++)
        if (!strcmp(s->w[i].role, role))
            return has_form(&s->w[i], dtype, ndim, shape) ? s->bytes[i] : NULL;
    return NULL;
}

static bool has_role(const struct td_settle *s, const char *role)
{
    int i;

    for (i = 0; i < s->n_w; i++)
        if (!strcmp(s->w[i].role, role))
            return true;
    return false;
}

#define MAX_DIM (1 << 24)              /* of a layer: no product of sizes overflows */

struct sizes { int64_t n, k, groups; };

static bool read_sizes(const struct td_settle *s, int64_t block_n, struct sizes *z)
{
    int64_t group_size = td_settle_attr(s, "group_size", 0);

    z->n = td_settle_attr(s, "n", 0), z->k = td_settle_attr(s, "k", 0);
    if (z->n <= 0 || z->n > MAX_DIM || z->n % block_n || z->k <= 0 || z->k > MAX_DIM || z->k % 8 || group_size <= 0 || z->k % group_size)
        return false;
    z->groups = z->k / group_size;
    return true;
}

/* A layout that cannot be undone is kept as it was sent; only what cannot be kept is lost. */
static int unpacked(struct td_settle *s, struct td_vllm_weight *w, int rc, struct td_error *err)
{
    if (rc == TD_ENOMEM)
        return rc;
    if (!rc)
        return settle_weight(s, w);
    if (err)
        err->code = TD_EUNSUPPORTED;
    return TD_EUNSUPPORTED;
}

int td_settle_vllm_int4(struct td_settle *s, struct td_error *err)
{
    struct td_vllm_weight w;
    const void *q, *zeros, *scales;
    struct sizes z;
    int64_t bk = s->n_w && s->w[0].ndim == 3 ? (s->w[0].shape[2] - TD_VLLM_INT4_BLOCK_N * 4) / (TD_VLLM_INT4_BLOCK_N / 2) : 0;

    if (!read_sizes(s, TD_VLLM_INT4_BLOCK_N, &z) || bk <= 0 || z.k % bk)
        return td_fail(err, TD_EUNSUPPORTED, "weights of int4_scaled_mm_cpu in sizes that it cannot have");
    q = sent(s, "qweight", "U8", 3, (int64_t[]){z.n / TD_VLLM_INT4_BLOCK_N, z.k / bk, bk * TD_VLLM_INT4_BLOCK_N / 2 + TD_VLLM_INT4_BLOCK_N * 4});
    zeros = sent(s, "qzeros", "I8", 3, (int64_t[]){z.n / TD_VLLM_INT4_BLOCK_N, z.groups, TD_VLLM_INT4_BLOCK_N});
    scales = sent(s, "scales", "F32", 3, (int64_t[]){z.n / TD_VLLM_INT4_BLOCK_N, z.groups, TD_VLLM_INT4_BLOCK_N});
    if (!q || !zeros || !scales)
        return td_fail(err, TD_EUNSUPPORTED, "weights of int4_scaled_mm_cpu in another form than vLLM 0.32 has them");
    return unpacked(s, &w, td_vllm_int4_unpack(q, zeros, scales, z.n, z.k, z.groups, bk, &w, err), err);
}

int td_settle_vllm_wna16(struct td_settle *s, struct td_error *err)
{
    struct td_vllm_weight w;
    const void *q, *zeros = NULL, *scales;
    enum td_dtype dtype = TD_DT_F16;
    struct sizes z;
    bool ok;

    if (!read_sizes(s, TD_VLLM_WNA16_BLOCK_N, &z))
        return td_fail(err, TD_EUNSUPPORTED, "weights of cpu_gemm_wna16 in sizes that it cannot have");
    q = sent(s, "qweight", "I32", 2, (int64_t[]){z.n / TD_VLLM_WNA16_BLOCK_N, 2 * z.k});
    scales = sent(s, "scales", "F16", 2, (int64_t[]){z.groups, z.n});
    if (!scales && (scales = sent(s, "scales", "BF16", 2, (int64_t[]){z.groups, z.n})))
        dtype = TD_DT_BF16;
    ok = q && scales;
    if (ok && has_role(s, "qzeros"))
        ok = (zeros = sent(s, "qzeros", "I32", 2, (int64_t[]){z.groups, z.n / 8})) != NULL;
    if (!ok)
        return td_fail(err, TD_EUNSUPPORTED, "weights of cpu_gemm_wna16 in another form than vLLM 0.32 has them");
    return unpacked(s, &w, td_vllm_wna16_unpack(q, zeros, scales, dtype, z.n, z.k, z.groups, &w, err), err);
}

/* ---- weights behind a oneDNN handler ------------------------------------------------------------------------------- */

/* Tensors of the checkpoint, one under the other: [n, k]. */
struct stack { const struct td_st_tensor *part[TD_FUSED_PARTS]; int n_parts; int64_t n, k; };

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_BF16 || dt == TD_DT_F16 || dt == TD_DT_F32;
}

static bool find_stack(const struct td_checkpoint *ck, const struct td_fused *layer, struct stack *out)
{
    char name[TD_FUSED_NAME + 16];
    int i;

    memset(out, 0, sizeof *out);
    for (i = 0; i < layer->n; i++) {
        const struct td_st_tensor *t;

        snprintf(name, sizeof name, "%s.weight", layer->part[i]);
        t = td_safetensors_find(ck->tensors, name);
        if (!t || !is_float(t->dtype) || t->ndim != 2 || !t->data || (i && (t->shape[1] != out->k || t->dtype != out->part[0]->dtype)))
            return false;
        out->part[out->n_parts++] = t;
        out->n += t->shape[0];
        out->k = t->shape[1];
    }
    return true;
}

static uint32_t stack_bits(const struct stack *st, uint64_t element, enum td_dtype to)
{
    int64_t row = (int64_t)(element / (uint64_t)st->k), col = (int64_t)(element % (uint64_t)st->k);
    int i;

    for (i = 0; row >= st->part[i]->shape[0]; i++)
        row -= st->part[i]->shape[0];
    return float_bits(st->part[i]->dtype, st->part[i]->data, (size_t)(row * st->k + col), to);
}

static bool print_fits(const struct tap_print *p, enum td_dtype dtype, const struct stack *st)
{
    uint64_t size = td_dtype_size(dtype), per = 4 / size, words = (uint64_t)st->n * (uint64_t)st->k * size / 4, i, j;

    if (st->n != p->n || st->k != p->k || !words)
        return false;
    for (i = 0; i < TAP_PRINT_WORDS; i++) {
        uint64_t at = words * i / TAP_PRINT_WORDS * per;
        uint32_t word = 0;

        for (j = 0; j < per; j++)
            word |= stack_bits(st, at + j, dtype) << 8 * size * j;
        if (word != p->word[i])
            return false;
    }
    return true;
}

/* Embeddings that an output layer shares are found as such only where no layer of its own has the content. */
static bool is_embedding(const char *layer)
{
    const char *dot = strrchr(layer, '.');

    return strstr(dot ? dot : layer, "embed") != NULL;
}

static void try_stack(const struct td_settle *s, enum td_dtype dtype, const struct td_fused *layer, int *found, struct td_fused *best, struct stack *stack)
{
    struct stack st;
    bool replaces;

    if (!find_stack(td_layers_checkpoint(s->layers), layer, &st) || !print_fits(s->print, dtype, &st))
        return;
    replaces = *found && is_embedding(best->layer);
    if (*found && is_embedding(layer->layer))
        return;
    if (!*found || replaces) {
        *best = *layer;
        *stack = st;
    }
    *found += !replaces;
}

static int find_by_print(const struct td_settle *s, enum td_dtype dtype, struct td_fused *layer, struct stack *stack)
{
    const struct td_safetensors *all = td_layers_checkpoint(s->layers)->tensors;
    const size_t tail = strlen(".weight");
    struct td_fused try;
    int found = 0;
    size_t i;

    for (i = 0; i < td_safetensors_count(all); i++) {
        const struct td_st_tensor *t = td_safetensors_at(all, i);
        size_t len = strlen(t->name);
        char name[TD_FUSED_NAME];

        if (t->ndim != 2 || t->shape[1] != s->print->k || len <= tail || len - tail >= sizeof name || strcmp(t->name + len - tail, ".weight"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - tail), t->name);
        if (td_fused_single(name, &try))
            try_stack(s, dtype, &try, &found, layer, stack);
        if (td_fused_from(name, &try))
            try_stack(s, dtype, &try, &found, layer, stack);
    }
    return found;
}

/* In the type that the server multiplies with. */
static void convert_stack(const struct stack *st, enum td_dtype dtype, uint8_t *to)
{
    size_t size = td_dtype_size(dtype), n, e;
    int i;

    for (i = 0; i < st->n_parts; i++, to += n * size) {
        const struct td_st_tensor *part = st->part[i];

        n = (size_t)part->shape[0] * (size_t)st->k;
        if (part->dtype == dtype) {
            memcpy(to, part->data, n * size);
            continue;
        }
        for (e = 0; e < n; e++) {
            uint32_t bits = float_bits(part->dtype, part->data, e, dtype);

            memcpy(to + e * size, &bits, size); /* little-endian, as the file is */
        }
    }
}

/* Tensor i becomes the stack's bytes, in its own type. */
static int keep_stack(struct td_settle *s, int i, enum td_dtype dtype, const struct stack *st, struct td_error *err)
{
    size_t bytes = (size_t)st->n * (size_t)st->k * td_dtype_size(dtype);
    int at = s->n;

    td_settle_tensor(&s->t[at], &s->w[i]);
    s->n++;
    s->size[at] = bytes;
    if (st->n_parts == 1 && st->part[0]->dtype == dtype) {
        s->data[at] = st->part[0]->data;
        return TD_OK;
    }
    s->data[at] = s->owned[at] = malloc(bytes);
    if (!s->owned[at])
        return td_fail(err, TD_ENOMEM, "out of memory for a weight of %zu bytes", bytes);
    convert_stack(st, dtype, s->owned[at]);
    return TD_OK;
}

int td_settle_vllm_gemm(struct td_settle *s, struct td_error *err)
{
    enum td_dtype dtype = s->print ? td_dtype_parse(s->print->dtype) : TD_DT_NONE;
    struct td_fused layer;
    struct stack stack;
    int i, rc = TD_OK;

    if (!is_float(dtype) || s->n_w < 1 || s->bytes[0] || s->w[0].ndim != 2 || s->w[0].shape[0] != s->print->n || s->w[0].shape[1] != s->print->k ||
        td_dtype_parse(s->w[0].dtype) != dtype)
        return td_fail(err, TD_EUNSUPPORTED, "a weight behind a handler, without a print of it");
    s->matches = s->layers && td_layers_checkpoint(s->layers) ? find_by_print(s, dtype, &layer, &stack) : 0;
    if (s->matches) {
        rc = keep_stack(s, 0, dtype, &stack, err);
        if (!rc)
            refer(s, 0, &layer, "weight", stack.part[0]->dtype);
    } else {
        td_settle_as_sent(s, 0);
    }
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer.layer);
    for (i = 1; i < s->n_w; i++)
        td_settle_as_sent(s, i);
    return rc;
}
