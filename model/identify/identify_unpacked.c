/* identify_unpacked.c - identify weights that were unpacked into GPTQ's layout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/identify_unpacked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint.h"
#include "model/identify/checkpoint_ref.h"
#include "model/identify/gptq_match.h"

/* ---- references ------------------------------------------------------------------------------ */

/* Set t->ref's slice: the rows and columns of each part that t is made of. n_per outputs are one
 * column of t. */
static void set_slice(struct td_tensor_rec *t, const struct td_gptq_match *m,
                      int64_t (*row_of)(const struct td_gptq_part *), int64_t n_per)
{
    struct td_ref_range rows[TD_FUSED_PARTS], cols[TD_FUSED_PARTS];
    int i;

    for (i = 0; i < m->layer.n; i++) {
        const struct td_gptq_part *p = &m->part[i];

        rows[i] = (struct td_ref_range){row_of(p), t->shape[0]};
        cols[i] = (struct td_ref_range){p->n0 / n_per, p->n / n_per};
    }
    td_checkpoint_ref_slice(t, rows, cols, m->layer.n);
}

static int64_t first_word(const struct td_gptq_part *p)
{
    return p->k0 * p->w->bits / 32;
}

/* Tensors 0 to 2 of the output are qweight, qzeros and scales; 3 may be g_idx. */
static void refer_tensors(struct td_weight_set *s, const struct td_gptq_match *m)
{
    int64_t pack = 32 / m->part[0].w->bits;

    if (!m->sorted)
        td_checkpoint_ref_layer(s, 0, &m->layer, "qweight", TD_DT_I32);
    td_checkpoint_ref_layer(s, 1, &m->layer, "qzeros", TD_DT_I32);
    td_checkpoint_ref_layer(s, 2, &m->layer, "scales", TD_DT_F16);
    if (!m->unsliced) {
        if (!m->sorted)
            set_slice(&s->t[0].rec, m, first_word, 1);
        set_slice(&s->t[1].rec, m, td_gptq_part_first_group, pack);
        set_slice(&s->t[2].rec, m, td_gptq_part_first_group, 1);
    }
    if (s->n > 3) {
        struct td_fused first = m->layer;

        first.n = 1;                   /* all parts have the same */
        td_checkpoint_ref_layer(s, 3, &first, "g_idx", TD_DT_I32);
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Rewrite qzeros for another zero_offset. The checkpoint holds the same zero points in that form,
 * so no field over- or underflows. */
static void set_zero_offset(struct td_gptq_unpacked *w, int offset)
{
    const uint32_t ones = w->bits == 4 ? 0x11111111u : 0x01010101u;
    int64_t i;

    for (i = 0; i < w->groups * (w->n * w->bits / 32); i++)
        w->qzeros[i] += (uint32_t)(w->zero_offset - offset) * ones;
    w->zero_offset = offset;
}

static void store_weight(struct td_weight_set *s, struct td_gptq_unpacked *w)
{
    td_weight_set_add_dense(s, "qweight", "I32", w->k * w->bits / 32, w->n, w->qweight);
    td_weight_set_add_dense(s, "qzeros", "I32", w->groups, w->n * w->bits / 32, w->qzeros);
    td_weight_set_add_dense(s, "scales", td_dtype_name(w->scale_dtype), w->groups, w->n, w->scales);
    if (w->g_idx)
        td_weight_set_add_dense(s, "g_idx", "I32", w->k, 0, w->g_idx);
    td_weight_set_add_attr(s, "zero_offset", w->zero_offset);
    td_weight_set_add_attr(s, "act_order", w->g_idx != NULL);
    memset(w, 0, sizeof *w);
}

int td_identify_unpack_error(int rc, struct td_error *err)
{
    if (!rc || rc == TD_ENOMEM || rc == TD_ELIMIT)
        return rc;
    if (err)
        err->code = TD_EUNSUPPORTED;
    return TD_EUNSUPPORTED;
}

int td_identify_begin(const struct td_weight_set *s, const char *kernel, struct td_gptq_unpacked *w,
                      struct td_error *err)
{
    const int64_t bits = td_weight_set_attr(s, "bits", 0), k = td_weight_set_attr(s, "k", 0),
                  group_size = td_weight_set_attr(s, "group_size", 0);

    if ((bits != 4 && bits != 8) || group_size <= 0 || k % group_size)
        return td_fail(err, TD_EINVAL, "weights of %s in sizes that it cannot have", kernel);
    return td_gptq_unpacked_init(w, (int)bits, td_weight_set_attr(s, "n", 0), k, k / group_size, err);
}

static int find(struct td_weight_set *s, const struct td_gptq_wanted *wanted,
                struct td_gptq_match *match)
{
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;

    return ck ? td_gptq_match_find(ck, wanted, match) : 0;
}

/* Make w the output of s; where s->matches, with what the match says. */
static void fill_output(struct td_weight_set *s, struct td_gptq_unpacked *w,
                        const struct td_gptq_match *match)
{
    const bool stored = !s->matches || match->padded; /* the checkpoint has no padding */

    if (!stored)
        set_zero_offset(w, match->part[0].w->zero_offset);
    store_weight(s, w);
    if (!stored)
        refer_tensors(s, match);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", match->layer.layer);
}

void td_identify_unpacked(struct td_weight_set *s, struct td_gptq_unpacked *w, bool marlin)
{
    struct td_gptq_match match;

    s->matches = find(s, &(struct td_gptq_wanted){.w = w, .sorted_rows = marlin, .padded = marlin}, &match);
    fill_output(s, w, &match);
}

/* ---- what was repacked ------------------------------------------------------------------------ */

static int compare_counts(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* How often each value of so many bits occurs, the rarest first. */
static void count_values(const void *data, size_t bytes, int bits, uint64_t *count)
{
    const unsigned char *p = data;
    uint64_t byte[256] = {0};
    const unsigned values = 1u << bits;
    size_t i;

    for (i = 0; i < bytes; i++)
        byte[p[i]]++;
    memset(count, 0, values * sizeof *count);
    for (i = 0; i < 256; i++) {
        count[i % values] += byte[i];
        if (bits == 4)
            count[i / values] += byte[i];
    }
    qsort(count, values, sizeof *count, compare_counts);
}

/* Can the bytes that the server has be those of w->qweight, repacked? Whatever the order, each value
 * occurs as often as there. They are not if other weights were put where the repacked one lay. */
static bool can_be_repacked(const struct td_weight_set *s, const struct td_gptq_unpacked *w)
{
    const size_t bytes = (size_t)(w->k * w->n * w->bits / 8);
    uint64_t sent[256], known[256];
    int i;

    for (i = 0; i < s->n_sent && strcmp(s->sent[i].rec.role, "qweight"); i++)
        ;
    if (i == s->n_sent || !s->sent[i].data || s->sent[i].size != bytes)
        return false;
    count_values(s->sent[i].data, bytes, w->bits, sent);
    count_values(w->qweight, bytes, w->bits, known);
    return !memcmp(sent, known, sizeof *sent << w->bits);
}

int td_identify_sampled(struct td_weight_set *s, struct td_gptq_unpacked *w, bool sorted_rows,
                        const uint16_t *scaled_zeros, struct td_error *err)
{
    struct td_gptq_match match;
    int rc;

    s->matches =
        find(s, &(struct td_gptq_wanted){.w = w, .sorted_rows = sorted_rows, .sample = s->fingerprint, .scaled_zeros = scaled_zeros},
             &match);
    if (!s->matches)
        return td_fail(err, TD_EUNSUPPORTED, "no layer of the checkpoint has this sample");
    rc = td_gptq_match_qweight(&match, w, err);
    if (scaled_zeros)
        td_gptq_match_qzeros(&match, w);
    if (!rc && !can_be_repacked(s, w)) {
        s->matches = 0;
        rc = td_fail(err, TD_EUNSUPPORTED, "the weights are no longer those that were repacked");
    }
    if (!rc)
        fill_output(s, w, &match);
    return rc;
}

int td_identify_by(struct td_weight_set *s, const char *kernel, td_identify_unpack *unpack, bool marlin, struct td_error *err)
{
    struct td_gptq_unpacked w = {0};
    int rc = td_identify_begin(s, kernel, &w, err);

    if (!rc)
        rc = unpack(s, &w, err);
    if (!rc)
        td_identify_unpacked(s, &w, marlin);
    td_gptq_unpacked_release(&w);
    return td_identify_unpack_error(rc, err);
}
