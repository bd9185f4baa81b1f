/* identify_own.c - identify weights of operators and kernels that a file of the user's describes
 * (record --ops).
 * SPDX-License-Identifier: Apache-2.0
 *
 * They come in the checkpoint's own layout or near to it. What has not the form that the file says
 * is stored as it was sent. */
#include <stdlib.h>
#include <string.h>

#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"
#include "model/identify/moe_experts.h"

/* ---- gptq ------------------------------------------------------------------------------------ */

static int copy_words(const struct td_weight_set *s, const char *role, int64_t rows, int64_t cols,
                      void *to, struct td_error *err)
{
    const int64_t shape[] = {rows, cols};
    const void *sent = td_weight_set_sent(s, role, "I32", cols ? 2 : 1, shape);

    if (!sent)
        return td_fail(err, TD_EUNSUPPORTED, "%s is not as in a GPTQ checkpoint", role);
    memcpy(to, sent, (size_t)(rows * (cols ? cols : 1)) * 4);
    return TD_OK;
}

static int copy_g_idx(const struct td_weight_set *s, struct td_gptq_unpacked *w,
                      struct td_error *err)
{
    w->g_idx = malloc((size_t)w->k * 4);
    return w->g_idx ? copy_words(s, "g_idx", w->k, 0, w->g_idx, err)
                    : td_fail(err, TD_ENOMEM, "out of memory for g_idx");
}

/* Without zero points the type is symmetric. */
static int read_gptq(const struct td_weight_set *s, struct td_gptq_unpacked *w,
                     struct td_error *err)
{
    const void *scales = td_weight_set_sent_16bit(s, "scales", &w->scale_dtype, 2,
                                                  (int64_t[]){w->groups, w->n});
    int rc;

    if (!scales)
        return td_fail(err, TD_EUNSUPPORTED, "scales that are not as in a GPTQ checkpoint");
    memcpy(w->scales, scales, (size_t)(w->groups * w->n) * 2);
    rc = copy_words(s, "qweight", w->k * w->bits / 32, w->n, w->qweight, err);
    if (!rc && td_weight_set_has(s, "g_idx"))
        rc = copy_g_idx(s, w, err);
    if (rc || td_weight_set_has(s, "qzeros")) {
        w->zero_offset = td_weight_set_attr(s, "zero_offset", 1) != 0;
        return rc ? rc : copy_words(s, "qzeros", w->groups, w->n * w->bits / 32, w->qzeros, err);
    }
    td_gptq_unpacked_set_symmetric(w);
    return TD_OK;
}

static void add_bias(struct td_weight_set *s)
{
    int i;

    for (i = 0; i < s->n_sent; i++)
        if (!strcmp(s->sent[i].rec.role, "bias"))
            td_weight_set_add_sent(s, &s->sent[i]);
}

int td_identify_own_gptq(struct td_weight_set *s, struct td_error *err)
{
    const int rc = td_identify_by(s, "a row of --ops", read_gptq, false, err);

    if (!rc)
        add_bias(s);
    return rc;
}

/* ---- gptq, expert by expert ------------------------------------------------------------------ */

static int read_experts(const struct td_weight_set *s, const struct td_experts_sizes *x,
                        struct td_experts_sent *in, struct td_error *err)
{
    const int64_t e = x->experts, words = x->n * x->bits / 32;
    const void *g_idx = NULL;

    in->qweight = td_weight_set_sent(s, "qweight", "I32", 3, (int64_t[]){e, x->k * x->bits / 32, x->n});
    in->scales = td_weight_set_sent_16bit(s, "scales", &in->scale_dtype, 3,
                                          (int64_t[]){e, x->groups, x->n});
    in->bias = td_weight_set_sent_16bit(s, "bias", &in->bias_dtype, 2, (int64_t[]){e, x->n});
    if (!td_experts_take(s, "qzeros", "I32", 3, (int64_t[]){e, x->groups, words}, &in->qzeros) ||
        !td_experts_take(s, "g_idx", "I32", 2, (int64_t[]){e, x->k}, &g_idx) || !in->qweight ||
        !in->scales || (!in->bias && td_weight_set_has(s, "bias")))
        return td_fail(err, TD_EUNSUPPORTED, "experts that are not as in a GPTQ checkpoint");
    in->g_idx = g_idx;
    in->zero_offset = td_weight_set_attr(s, "zero_offset", 1) != 0;
    return TD_OK;
}

static int copy_expert(const struct td_experts_sizes *x, const struct td_experts_sent *in, int64_t e,
                       struct td_gptq_unpacked *w, uint16_t *bias, struct td_error *err)
{
    const int64_t words = x->k * x->bits / 32 * x->n, zeros = x->groups * (x->n * x->bits / 32);

    memcpy(w->qweight, (const uint32_t *)in->qweight + e * words, (size_t)words * 4);
    memcpy(w->scales, in->scales + e * x->groups * x->n, (size_t)(x->groups * x->n) * 2);
    if (bias)
        memcpy(bias, in->bias + e * x->n, (size_t)x->n * 2);
    if (in->g_idx && !(w->g_idx = malloc((size_t)x->k * 4)))
        return td_fail(err, TD_ENOMEM, "out of memory for g_idx");
    if (in->g_idx)
        memcpy(w->g_idx, in->g_idx + e * x->k, (size_t)x->k * 4);
    if (!in->qzeros)
        return td_gptq_unpacked_set_symmetric(w), TD_OK;
    memcpy(w->qzeros, (const uint32_t *)in->qzeros + e * zeros, (size_t)zeros * 4);
    w->zero_offset = in->zero_offset;
    return TD_OK;
}

int td_identify_own_moe(struct td_weight_set *s, struct td_error *err)
{
    static const struct td_experts_layout gptq = {"a row of --ops", read_experts, copy_expert};

    return td_identify_experts(s, &gptq, err);
}

/* ---- kn -------------------------------------------------------------------------------------- */

/* dense [k, n] -> dense [n, k] */
static void transpose(const uint8_t *from, uint8_t *to, int64_t k, int64_t n, size_t size)
{
    int64_t i, j;

    for (i = 0; i < k; i++)
        for (j = 0; j < n; j++)
            memcpy(to + (size_t)(j * k + i) * size, from + (size_t)(i * n + j) * size, size);
}

/* The set with its first tensor turned. s->t's bytes may be `turned`, which is the caller's: they
 * are copied. */
static int identify_turned(struct td_weight_set *s, struct td_weight_tensor *turned,
                           struct td_error *err)
{
    struct td_weight_tensor all[TD_OP_MAX_WEIGHTS];
    const struct td_weight_tensor *sent = s->sent;
    void *copy;
    int i, rc;

    memcpy(all, s->sent, (size_t)s->n_sent * sizeof *all);
    all[0] = *turned;
    s->sent = all;
    rc = td_identify_float(s, err);
    s->sent = sent;
    for (i = 0; !rc && i < s->n; i++) {
        if (s->t[i].data != turned->data)
            continue;
        copy = malloc(s->t[i].size + 1);
        if (!copy)
            return td_fail(err, TD_ENOMEM, "out of memory for a weight");
        memcpy(copy, turned->data, s->t[i].size);
        s->t[i].data = s->t[i].owned = copy;
    }
    return rc;
}

int td_identify_own_kn(struct td_weight_set *s, struct td_error *err)
{
    const struct td_weight_tensor *w = s->n_sent ? &s->sent[0] : NULL;
    const void *sent = w && w->rec.ndim == 2
                           ? td_weight_set_sent(s, "w", w->rec.dtype, 2, w->rec.shape)
                           : NULL;
    struct td_weight_tensor turned;
    uint8_t *bytes;
    int rc;

    if (!sent || !w->size || s->n_sent > TD_OP_MAX_WEIGHTS)
        return td_fail(err, TD_EUNSUPPORTED, "a weight that is no matrix");
    bytes = malloc(w->size + 1);
    if (!bytes)
        return td_fail(err, TD_ENOMEM, "out of memory for a weight of %zu bytes", w->size);
    turned = *w;
    turned.data = bytes;
    turned.rec.shape[0] = w->rec.shape[1];
    turned.rec.shape[1] = w->rec.shape[0];
    turned.rec.strides[0] = w->rec.shape[0];
    turned.rec.strides[1] = 1;
    transpose(sent, bytes, w->rec.shape[0], w->rec.shape[1],
              w->size / (size_t)(w->rec.shape[0] * w->rec.shape[1]));
    rc = identify_turned(s, &turned, err);
    free(bytes);
    return rc;
}
