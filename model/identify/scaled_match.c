/* scaled_match.c - find the layer of a checkpoint that a weight of 8 bits was loaded or made from.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/scaled_match.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/desc/weight_fingerprint.h"

#define SAMPLES 4096 /* numbers that are compared, spread over the matrix */

static int64_t blocks(int64_t size)
{
    return (size + TD_SCALED_BLOCK - 1) / TD_SCALED_BLOCK;
}

static double number_at(const struct td_scaled_matrix *w, int64_t row, int64_t col)
{
    return td_dtype_get(w->dtype, w->data, (size_t)(row * w->k + col));
}

static double scale_at(const struct td_scaled_matrix *w, int64_t row, int64_t col)
{
    const int64_t at = w->by == TD_SCALED_ONE      ? 0
                       : w->by == TD_SCALED_BY_ROW ? row
                                         : row / TD_SCALED_BLOCK * blocks(w->k) + col / TD_SCALED_BLOCK;

    return w->scales ? td_dtype_get(w->scale_dtype, w->scales, (size_t)at) : 1;
}

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_F32 || dt == TD_DT_BF16 || dt == TD_DT_F16;
}

bool td_scaled_is_8bit(enum td_dtype dt)
{
    return dt == TD_DT_F8_E4M3 || dt == TD_DT_F8_E5M2 || dt == TD_DT_I8;
}

/* ---- parts of the checkpoint ----------------------------------------------------------------- */

static const struct td_st_tensor *find_part(const struct td_checkpoint *ck, const char *layer,
                                            const char *tail)
{
    char name[TD_FUSED_NAME + 24];

    snprintf(name, sizeof name, "%s.%s", layer, tail);
    return td_safetensors_find(ck->tensors, name);
}

/* The scales of a part. False: it has none that are known. */
static bool read_part_scales(const struct td_checkpoint *ck, const char *layer, struct td_scaled_matrix *p)
{
    const struct td_st_tensor *t = find_part(ck, layer, "weight_scale");
    int64_t count = 1;
    int d;

    t = t ? t : find_part(ck, layer, "weight_scale_inv");
    if (!t || !t->data || !is_float(t->dtype))
        return false;
    for (d = 0; d < t->ndim; d++)
        count *= t->shape[d];
    p->by = count == 1 ? TD_SCALED_ONE : count == p->n ? TD_SCALED_BY_ROW : TD_SCALED_BY_BLOCK;
    p->scales = t->data, p->scale_dtype = t->dtype;
    return p->by != TD_SCALED_BY_BLOCK ||
           (t->ndim == 2 && t->shape[0] == blocks(p->n) && t->shape[1] == blocks(p->k));
}

static bool open_part(const struct td_checkpoint *ck, const char *layer, struct td_scaled_matrix *p)
{
    const struct td_st_tensor *t = find_part(ck, layer, "weight");

    if (!t || t->ndim != 2 || !t->data)
        return false;
    *p = (struct td_scaled_matrix){.data = t->data, .dtype = t->dtype, .n = t->shape[0], .k = t->shape[1]};
    return is_float(t->dtype) || (td_scaled_is_8bit(t->dtype) && read_part_scales(ck, layer, p));
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* The distance between q and its neighbours, and the largest number, of a type of 8 bits. */
static double step_at(enum td_dtype dt, double q)
{
    const int mantissa = dt == TD_DT_F8_E4M3 ? 3 : 2, lowest = dt == TD_DT_F8_E4M3 ? -6 : -14;
    int exponent;

    if (dt == TD_DT_I8)
        return 1;
    frexp(q, &exponent);
    exponent = q == 0 || exponent - 1 < lowest ? lowest : exponent - 1;
    return ldexp(1, exponent - mantissa);
}

static double largest(enum td_dtype dt)
{
    return dt == TD_DT_I8 ? 127 : dt == TD_DT_F8_E4M3 ? 448 : 57344;
}

/* Is q the number that x is rounded to? A server rounds x to 16 bits before (bfloat16's 8 bits are the
 * fewest: --dtype), or divides by multiplying: a little beside the middle counts. 2^-25: half of
 * float16's least, before scaling. */
static bool rounds_to(enum td_dtype dt, double x, double scale, double q)
{
    const double half = 0.5 * step_at(dt, q),
                 near = half + 0x1p-8 * fabs(x) * (1 + 0x1p-7) + fmin(half, 0x1p-25 / fabs(scale));

    return fabs(x - q) <= near || (fabs(q) == largest(dt) && x / q >= 1);
}

/* What a number of the parts, one under the other, stands for. */
static double number_in(const struct td_scaled_matrix *part, int n_parts, int64_t row, int64_t col)
{
    for (; n_parts > 1 && row >= part->n; part++, n_parts--)
        row -= part->n;
    return number_at(part, row, col) * scale_at(part, row, col);
}

/* Do the parts, one under the other, round to w? */
static bool parts_make(const struct td_scaled_matrix *part, int n_parts, const struct td_scaled_matrix *w)
{
    const uint64_t all = (uint64_t)w->n * (uint64_t)w->k;
    const unsigned samples = all < SAMPLES ? (unsigned)all : SAMPLES;
    bool is_zero = true;
    unsigned i;

    for (i = 0; i < samples; i++) {
        const uint64_t at = samples < SAMPLES ? i : td_fingerprint_at(all, i);
        const int64_t row = (int64_t)(at / (uint64_t)w->k), col = (int64_t)(at % (uint64_t)w->k);
        const double q = number_at(w, row, col), scale = scale_at(w, row, col),
                     x = number_in(part, n_parts, row, col) / scale;

        if (!(fabs(scale) > 0) || !rounds_to(w->dtype, x, scale, q))
            return false;
        is_zero &= q == 0;
    }
    return !is_zero;
}

bool td_scaled_layer_makes(const struct td_checkpoint *ck, const struct td_fused *layer,
                           const struct td_scaled_matrix *w)
{
    struct td_scaled_matrix part[TD_FUSED_PARTS];
    int64_t n = 0;
    int i;

    for (i = 0; i < layer->n; i++) {
        if (!open_part(ck, layer->part[i], &part[i]) || part[i].k != w->k)
            return false;
        n += part[i].n;
    }
    return n == w->n && parts_make(part, layer->n, w);
}

int td_scaled_find(const struct td_checkpoint *ck, const struct td_scaled_matrix *w,
                   struct td_fused *first)
{
    const size_t tail = strlen(".weight");
    int found = 0;
    size_t i;

    for (i = 0; i < td_safetensors_count(ck->tensors); i++) {
        const struct td_st_tensor *t = td_safetensors_at(ck->tensors, i);
        const size_t len = strlen(t->name);
        char layer[TD_FUSED_NAME];
        struct td_fused f;
        int fused;

        if (t->ndim != 2 || t->shape[1] != w->k || len <= tail || len - tail >= sizeof layer ||
            strcmp(t->name + len - tail, ".weight"))
            continue;
        snprintf(layer, sizeof layer, "%.*s", (int)(len - tail), t->name);
        for (fused = 0; fused < 2; fused++)
            if ((fused ? td_fused_from(layer, &f) : td_fused_single(layer, &f)) &&
                td_scaled_layer_makes(ck, &f, w) && !found++)
                *first = f;
    }
    return found;
}
