/* identify_vllm_cpu.c - weights as vLLM's CPU build has them at run time: unpacked, found in the checkpoint, named.
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
#include "model/identify/fused_layers.h"
#include "model/identify/identify_unpacked.h"

/* ---- 4-bit weights ------------------------------------------------------------------------------------------------- */

#define MAX_DIM (1 << 24)              /* of a layer: no product of sizes overflows */

struct sizes { int64_t n, k, groups; };

static bool read_sizes(const struct td_identify *s, int64_t block_n, struct sizes *z)
{
    int64_t group_size = td_identify_attr(s, "group_size", 0);

    z->n = td_identify_attr(s, "n", 0), z->k = td_identify_attr(s, "k", 0);
    if (z->n <= 0 || z->n > MAX_DIM || z->n % block_n || z->k <= 0 || z->k > MAX_DIM || z->k % 8 || group_size <= 0 || z->k % group_size)
        return false;
    z->groups = z->k / group_size;
    return true;
}

/* The result takes w over; what came beside it stays as it is. */
static int identify_weight(struct td_identify *s, struct td_vllm_weight *w)
{
    int i;

    td_identify_weight(s, w, 0);
    for (i = 0; i < s->n_w; i++)
        if (!strcmp(s->w[i].role, "bias"))
            td_identify_as_sent(s, i);
    return TD_OK;
}

static int unpacked(struct td_identify *s, struct td_vllm_weight *w, int rc, struct td_error *err)
{
    return rc ? td_identify_unknown(rc, err) : identify_weight(s, w);
}

int td_identify_vllm_int4(struct td_identify *s, struct td_error *err)
{
    struct td_vllm_weight w;
    const void *q, *zeros, *scales;
    struct sizes z;
    int64_t bk = s->n_w && s->w[0].ndim == 3 ? (s->w[0].shape[2] - TD_VLLM_INT4_BLOCK_N * 4) / (TD_VLLM_INT4_BLOCK_N / 2) : 0;

    if (!read_sizes(s, TD_VLLM_INT4_BLOCK_N, &z) || bk <= 0 || z.k % bk)
        return td_fail(err, TD_EUNSUPPORTED, "weights of int4_scaled_mm_cpu in sizes that it cannot have");
    q = td_identify_sent(s, "qweight", "U8", 3, (int64_t[]){z.n / TD_VLLM_INT4_BLOCK_N, z.k / bk, bk * TD_VLLM_INT4_BLOCK_N / 2 + TD_VLLM_INT4_BLOCK_N * 4});
    zeros = td_identify_sent(s, "qzeros", "I8", 3, (int64_t[]){z.n / TD_VLLM_INT4_BLOCK_N, z.groups, TD_VLLM_INT4_BLOCK_N});
    scales = td_identify_sent(s, "scales", "F32", 3, (int64_t[]){z.n / TD_VLLM_INT4_BLOCK_N, z.groups, TD_VLLM_INT4_BLOCK_N});
    if (!q || !zeros || !scales)
        return td_fail(err, TD_EUNSUPPORTED, "weights of int4_scaled_mm_cpu in another form than vLLM 0.32 has them");
    return unpacked(s, &w, td_vllm_int4_unpack(q, zeros, scales, z.n, z.k, z.groups, bk, &w, err), err);
}

int td_identify_vllm_wna16(struct td_identify *s, struct td_error *err)
{
    struct td_vllm_weight w;
    const void *q, *zeros = NULL, *scales;
    enum td_dtype dtype = TD_DT_F16;
    struct sizes z;
    bool ok;

    if (!read_sizes(s, TD_VLLM_WNA16_BLOCK_N, &z))
        return td_fail(err, TD_EUNSUPPORTED, "weights of cpu_gemm_wna16 in sizes that it cannot have");
    q = td_identify_sent(s, "qweight", "I32", 2, (int64_t[]){z.n / TD_VLLM_WNA16_BLOCK_N, 2 * z.k});
    scales = td_identify_sent(s, "scales", "F16", 2, (int64_t[]){z.groups, z.n});
    if (!scales && (scales = td_identify_sent(s, "scales", "BF16", 2, (int64_t[]){z.groups, z.n})))
        dtype = TD_DT_BF16;
    ok = q && scales;
    if (ok && td_identify_has(s, "qzeros"))
        ok = (zeros = td_identify_sent(s, "qzeros", "I32", 2, (int64_t[]){z.groups, z.n / 8})) != NULL;
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
    return td_dtype_bits(st->part[i]->dtype, st->part[i]->data, (size_t)(row * st->k + col), to);
}

static bool print_fits(const struct tap_fingerprint *p, enum td_dtype dtype, const struct stack *st)
{
    uint64_t size = td_dtype_size(dtype), per = 4 / size, words = (uint64_t)st->n * (uint64_t)st->k * size / 4, i, j;

    if (st->n != p->n || st->k != p->k || !words)
        return false;
    for (i = 0; i < TAP_FINGERPRINT_WORDS; i++) {
        uint64_t at = words * i / TAP_FINGERPRINT_WORDS * per;
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

static void try_stack(const struct td_identify *s, enum td_dtype dtype, const struct td_fused *layer, int *found, struct td_fused *best, struct stack *stack)
{
    struct stack st;
    bool replaces;

    if (!find_stack(td_layer_index_checkpoint(s->layers), layer, &st) || !print_fits(s->print, dtype, &st))
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

static int find_by_print(const struct td_identify *s, enum td_dtype dtype, struct td_fused *layer, struct stack *stack)
{
    const struct td_safetensors *all = td_layer_index_checkpoint(s->layers)->tensors;
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
            uint32_t bits = td_dtype_bits(part->dtype, part->data, e, dtype);

            memcpy(to + e * size, &bits, size); /* little-endian, as the file is */
        }
    }
}

/* Tensor i becomes the stack's bytes, in its own type. */
static int keep_stack(struct td_identify *s, int i, enum td_dtype dtype, const struct stack *st, struct td_error *err)
{
    size_t bytes = (size_t)st->n * (size_t)st->k * td_dtype_size(dtype);
    int at = s->n;

    td_identify_tensor(&s->t[at], &s->w[i]);
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

int td_identify_vllm_gemm(struct td_identify *s, struct td_error *err)
{
    enum td_dtype dtype = s->print ? td_dtype_parse(s->print->dtype) : TD_DT_NONE;
    struct td_fused layer;
    struct stack stack;
    int i, rc = TD_OK;

    if (!is_float(dtype) || s->n_w < 1 || s->bytes[0] || s->w[0].ndim != 2 || s->w[0].shape[0] != s->print->n || s->w[0].shape[1] != s->print->k ||
        td_dtype_parse(s->w[0].dtype) != dtype)
        return td_fail(err, TD_EUNSUPPORTED, "a weight behind a handler, without a print of it");
    s->matches = s->layers && td_layer_index_checkpoint(s->layers) ? find_by_print(s, dtype, &layer, &stack) : 0;
    if (s->matches) {
        rc = keep_stack(s, 0, dtype, &stack, err);
        if (!rc)
            td_identify_refer(s, 0, &layer, "weight", stack.part[0]->dtype);
    } else {
        td_identify_as_sent(s, 0);
    }
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer.layer);
    for (i = 1; i < s->n_w; i++)
        td_identify_as_sent(s, i);
    return rc;
}

/* The print of a dense weight whose bytes are there. */
static struct tap_fingerprint print_of(const struct tap_tensor *w, const uint8_t *bytes)
{
    struct tap_fingerprint p = {.n = w->shape[0], .k = w->shape[1]};
    const uint64_t words = w->bytes / 4;

    memcpy(p.dtype, w->dtype, sizeof p.dtype);
    for (uint64_t i = 0; i < TAP_FINGERPRINT_WORDS && words; i++)
        memcpy(&p.word[i], bytes + words * i / TAP_FINGERPRINT_WORDS * 4, 4);
    return p;
}

/* Found by its print, then compared byte for byte: the server's copy is what ops are to have. */
int td_identify_gemm(struct td_identify *s, struct td_error *err)
{
    const enum td_dtype dtype = s->n_w ? td_dtype_parse(s->w[0].dtype) : TD_DT_NONE;
    const uint8_t *bytes = s->n_w && s->w[0].ndim == 2 ? td_identify_sent(s, "w", s->w[0].dtype, 2, s->w[0].shape) : NULL;
    struct td_fused layer;
    struct tap_fingerprint print;
    struct stack stack;
    int i, rc = TD_OK;

    if (!is_float(dtype) || !bytes)
        return td_fail(err, TD_EUNSUPPORTED, "a weight that is no matrix of floats");
    print = print_of(&s->w[0], bytes);
    s->print = &print;
    s->matches = s->layers && td_layer_index_checkpoint(s->layers) ? find_by_print(s, dtype, &layer, &stack) : 0;
    s->print = NULL;
    if (s->matches && !(rc = keep_stack(s, 0, dtype, &stack, err)) && memcmp(s->data[0], bytes, s->size[0]))
        s->matches = s->n = 0;
    if (rc)
        return rc;
    if (!s->matches)
        td_identify_as_sent(s, 0);
    else
        td_identify_refer(s, 0, &layer, "weight", stack.part[0]->dtype);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", layer.layer);
    for (i = 1; i < s->n_w; i++)      /* a bias */
        td_identify_as_sent(s, i);
    return TD_OK;
}
