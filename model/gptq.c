/* gptq.c - a GPTQ-quantised linear layer: loading, rules, unpacking, dequantising.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/gptq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rules ----------------------------------------------------------------------------------- */

int td_gptq_check_sizes(int bits, int64_t group_size, int64_t k, int64_t n, struct td_error *err)
{
    int64_t pack;

    if (bits != 4 && bits != 8)
        return td_fail(err, TD_EUNSUPPORTED, "bits is %d; 4 and 8 are supported", bits);
    pack = 32 / bits;
    if (k <= 0 || n <= 0 || k > INT32_MAX || n > INT32_MAX)
        return td_fail(err, TD_EUNSUPPORTED,
                       "K = %lld, N = %lld: both must be positive and fit 32 bits", (long long)k,
                       (long long)n);
    if (k % pack)
        return td_fail(err, TD_EUNSUPPORTED,
                       "K = %lld is no multiple of %lld, the weights in a word of %d-bit weights",
                       (long long)k, (long long)pack, bits);
    if (n % pack)
        return td_fail(err, TD_EUNSUPPORTED, "N = %lld is no multiple of %lld, the zero points in a word of %d-bit zero points",
                       (long long)n, (long long)pack, bits);
    if (group_size != k && (group_size < 8 || group_size % 8))
        return td_fail(err, TD_EUNSUPPORTED, "group_size is %lld; multiples of 8 and K = %lld are supported", (long long)group_size,
                       (long long)k);
    if (k % group_size)
        return td_fail(err, TD_EUNSUPPORTED, "K = %lld is no multiple of group_size = %lld", (long long)k, (long long)group_size);
    return 0;
}

int td_gptq_check(const struct td_gptq_weight *w, struct td_error *err)
{
    int rc = td_gptq_check_sizes(w->bits, w->group_size, w->k, w->n, err);

    if (rc)
        return rc;
    if (!w->qweight || !w->qzeros || !w->scales)
        return td_fail(err, TD_EINVAL, "qweight, qzeros and scales must all be there");
    if (w->groups != w->k / w->group_size)
        return td_fail(err, TD_EINVAL, "groups is %lld, expected K / group_size = %lld",
                       (long long)w->groups, (long long)(w->k / w->group_size));
    if (w->zero_offset != 0 && w->zero_offset != 1)
        return td_fail(err, TD_EINVAL, "zero_offset is %d; 1 (gptq) or 0 (gptq_v2)", w->zero_offset);
    for (int64_t k = 0; w->g_idx && k < w->k; k++)
        if (w->g_idx[k] < 0 || w->g_idx[k] >= w->groups)
            return td_fail(err, TD_EINVAL, "g_idx[%lld] is %d, there are %lld groups", (long long)k,
                           w->g_idx[k], (long long)w->groups);
    return 0;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* NULL in *out: not there. TD_ELIMIT: the name does not fit. */
static int layer_tensor(const struct td_safetensors *st, const char *layer, const char *part, const struct td_st_tensor **out)
{
    char name[512];

    if (snprintf(name, sizeof name, "%s.%s", layer, part) >= (int)sizeof name)
        return TD_ELIMIT;
    *out = td_safetensors_find(st, name);
    return 0;
}

static int require_part(const struct td_safetensors *st, const char *layer, const char *part, enum td_dtype dtype, int64_t d0,
                        int64_t d1, const struct td_st_tensor **out, struct td_error *err)
{
    char name[512];

    snprintf(name, sizeof name, "%s.%s", layer, part);
    return td_safetensors_require(st, name, dtype, d0, d1, out, err);
}

/* k and n from the shape of qweight, the only tensor that gives both. */
static int sizes_from_qweight(const struct td_safetensors *st, const char *layer, struct td_gptq_weight *w,
                              const struct td_st_tensor **qw, struct td_error *err)
{
    if (layer_tensor(st, layer, "qweight", qw))
        return td_fail(err, TD_ELIMIT, "%.40s...: the name of the layer is too long", layer);
    if (!*qw)
        return td_fail(err, TD_ENOTFOUND, "tensor \"%s.qweight\" is missing", layer);
    if (w->bits != 4 && w->bits != 8)
        return td_fail(err, TD_EUNSUPPORTED, "%s: bits is %d; 4 and 8 are supported", layer, w->bits);
    if ((*qw)->dtype != TD_DT_I32 && (*qw)->dtype != TD_DT_U32)
        return td_fail(err, TD_EINVAL, "tensor \"%s.qweight\": expected I32, found %s", layer, (*qw)->dtype_name);
    if ((*qw)->ndim != 2 || (*qw)->shape[0] > INT32_MAX || (*qw)->shape[1] > INT32_MAX)
        return td_fail(err, TD_EINVAL,
                       "tensor \"%s.qweight\": expected two dimensions [K*%d/32, N], found %d",
                       layer, w->bits, (*qw)->ndim);
    w->k = (*qw)->shape[0] * (32 / w->bits);
    w->n = (*qw)->shape[1];
    return 0;
}

/* The tensor's data if it is aligned to 4, else a copy at *copy, which moves on; w->owned has room for all
 * copies. */
static const void *align_data(const struct td_st_tensor *t, unsigned char **copy)
{
    const void *p = t->data;

    if ((uintptr_t)p % 4) {
        memcpy(*copy, p, t->size_bytes);
        p = *copy;
        *copy += (t->size_bytes + 63) / 64 * 64;
    }
    return p;
}

int td_gptq_weight_load(const struct td_safetensors *st, const char *layer, int bits, int group_size, int zero_offset,
                        struct td_gptq_weight *out, struct td_error *err)
{
    const struct td_st_tensor *qw = NULL, *qz = NULL, *sc = NULL, *gi = NULL;
    struct td_gptq_weight w = {.bits = bits, .zero_offset = zero_offset};
    unsigned char *copy = NULL;
    int rc;

    memset(out, 0, sizeof *out);
    if ((rc = sizes_from_qweight(st, layer, &w, &qw, err)))
        return rc;
    w.group_size = group_size == -1 ? (int)(w.k > INT32_MAX ? INT32_MAX : w.k) : group_size;
    if ((rc = td_gptq_check_sizes(bits, w.group_size, w.k, w.n, err))) {
        td_fail_at(err, "%s", layer);
        return rc;
    }
    w.groups = w.k / w.group_size;
    if ((rc = require_part(st, layer, "qzeros", qw->dtype, w.groups, w.n * bits / 32, &qz, err))
        || (rc = require_part(st, layer, "scales", TD_DT_F16, w.groups, w.n, &sc, err)))
        return rc;
    if (layer_tensor(st, layer, "g_idx", &gi))
        gi = NULL;
    if (gi && gi->size_bytes && (rc = require_part(st, layer, "g_idx", TD_DT_I32, w.k, -1, &gi, err)))
        return rc;
    if (((uintptr_t)qw->data | (uintptr_t)qz->data | (uintptr_t)sc->data | (uintptr_t)(gi ? gi->data : NULL)) % 4) {
        w.owned = copy = malloc(qw->size_bytes + qz->size_bytes + sc->size_bytes + (gi ? gi->size_bytes : 0) + 4 * 64);
        if (!copy)
            return td_fail(err, TD_ENOMEM, "out of memory");
    }
    w.qweight = align_data(qw, &copy);
    w.qzeros = align_data(qz, &copy);
    w.scales = align_data(sc, &copy);
    w.g_idx = gi && gi->size_bytes ? align_data(gi, &copy) : NULL;
    if (w.g_idx && td_gptq_g_idx_is_trivial(w.g_idx, w.k, w.group_size))
        w.g_idx = NULL;
    if ((rc = td_gptq_check(&w, err))) {
        td_fail_at(err, "%s", layer);
        free(w.owned);
        return rc;
    }
    *out = w;
    return 0;
}

void td_gptq_weight_release(struct td_gptq_weight *w)
{
    free(w->owned);
    memset(w, 0, sizeof *w);
}

/* ---- what a weight is ------------------------------------------------------------------------ */

unsigned td_gptq_q(const struct td_gptq_weight *w, int64_t k, int64_t n)
{
    const int64_t pack = 32 / w->bits;

    return w->qweight[k / pack * w->n + n] >> (w->bits * (k % pack)) & ((1u << w->bits) - 1);
}

int td_gptq_zero(const struct td_gptq_weight *w, int64_t g, int64_t n)
{
    const int64_t pack = 32 / w->bits;

    return (int)(w->qzeros[(g * w->n + n) / pack] >> (w->bits * (n % pack)) & ((1u << w->bits) - 1)) + w->zero_offset;
}

int64_t td_gptq_group(const struct td_gptq_weight *w, int64_t k)
{
    return w->g_idx ? w->g_idx[k] : k / w->group_size;
}

/* 9 bits times 11 bits: exact in float, so both types give the same value. */
static float dequant_element(const struct td_gptq_weight *w, int64_t k, int64_t n)
{
    const int64_t g = td_gptq_group(w, k);

    return (float)((int)td_gptq_q(w, k, n) - td_gptq_zero(w, g, n)) * td_f16_to_f32(w->scales[g * w->n + n]);
}

void td_gptq_dequant_f32(const struct td_gptq_weight *w, float *out)
{
    for (int64_t k = 0; k < w->k; k++)
        for (int64_t n = 0; n < w->n; n++)
            *out++ = dequant_element(w, k, n);
}

void td_gptq_dequant_f64(const struct td_gptq_weight *w, double *out)
{
    for (int64_t k = 0; k < w->k; k++)
        for (int64_t n = 0; n < w->n; n++)
            *out++ = dequant_element(w, k, n);
}

/* ---- act-order ------------------------------------------------------------------------------- */

void td_gptq_argsort_groups(const struct td_gptq_weight *w, int32_t *perm)
{
    int32_t at = 0;

    if (!w->g_idx) {
        for (int64_t k = 0; k < w->k; k++)
            perm[k] = (int32_t)k;
        return;
    }
    for (int64_t g = 0; g < w->groups; g++)
        for (int64_t k = 0; k < w->k; k++)
            if (w->g_idx[k] == g)
                perm[at++] = (int32_t)k;
}

int td_gptq_perm_check(const int32_t *perm, int64_t k, struct td_error *err)
{
    unsigned char *seen = calloc((size_t)k, 1);
    int64_t i;

    if (!seen)
        return td_fail(err, TD_ENOMEM, "out of memory for a permutation of %lld rows", (long long)k);
    for (i = 0; i < k && perm[i] >= 0 && perm[i] < k && !seen[perm[i]]; i++)
        seen[perm[i]] = 1;
    free(seen);
    if (i < k)
        return td_fail(err, TD_EINVAL, "perm[%lld] is %d: it is no permutation of %lld rows",
                       (long long)i, perm[i], (long long)k);
    return 0;
}

void td_gptq_g_idx_of_perm(const int32_t *perm, int64_t k, int64_t group_size, int32_t *g_idx)
{
    for (int64_t i = 0; i < k; i++)
        g_idx[perm[i]] = (int32_t)(i / group_size);
}

bool td_gptq_g_idx_is_trivial(const int32_t *g_idx, int64_t k, int64_t group_size)
{
    for (int64_t i = 0; i < k; i++)
        if (g_idx[i] != i / group_size)
            return false;
    return true;
}
