/* gptq_match.c - find the layer of a checkpoint that has the content of a GPTQ weight.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/gptq_match.h"

#include <stdlib.h>
#include <string.h>

#include "model/awq.h"
#include "model/identify/rank_shares.h"

#define PADDING 512 /* Marlin pads outputs to 64 or 128, inputs to 64 or 128 and whole groups */

/* ---- comparing ------------------------------------------------------------------------------- */

static unsigned packed_value(const uint32_t *words, int bits, int64_t i)
{
    return words[i * bits / 32] >> i * bits % 32 & ((1u << bits) - 1);
}

static int zero_of(const struct td_gptq_unpacked *w, int64_t g, int64_t n)
{
    return (int)packed_value(w->qzeros + g * (w->n * w->bits / 32), w->bits, n) + w->zero_offset;
}

int64_t td_gptq_part_first_group(const struct td_gptq_part *p)
{
    return p->w->groups == 1 ? 0 : p->k0 / p->w->group_size;
}

/* Compare row i of w, from output n0 on, with row r of the part. */
static bool same_row(const struct td_gptq_unpacked *w, int64_t i, int64_t n0,
                     const struct td_gptq_part *p, int64_t r)
{
    const int pack = 32 / w->bits, a = (int)(i % pack) * w->bits, b = (int)(r % pack) * w->bits;
    const uint32_t *have = w->qweight + i / pack * w->n + n0,
                   *want = p->w->qweight + r / pack * p->w->n + p->n0;
    const uint32_t mask = (1u << w->bits) - 1;
    int64_t j;

    for (j = 0; j < p->n; j++)
        if ((have[j] >> a & mask) != (want[j] >> b & mask))
            return false;
    return true;
}

/* The same where the checkpoint is AWQ's: its words are turned into GPTQ's, eight rows at a
 * time. */
static bool same_rows_awq(const struct td_gptq_unpacked *w, int64_t n0, const struct td_gptq_part *p)
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

/* All rows of w, from output n0 on, against the part's; perm: row i of w is row perm[i] of the
 * part, NULL: rows agree in order. */
static bool same_rows(const struct td_gptq_unpacked *w, int64_t n0, const struct td_gptq_part *p,
                      const int32_t *perm)
{
    const int pack = 32 / w->bits;
    int64_t i;

    if (p->w->awq)
        return !perm && same_rows_awq(w, n0, p);
    for (i = 0; !perm && i < w->k / pack; i++)
        if (memcmp(&w->qweight[i * w->n + n0], &p->w->qweight[(p->k0 / pack + i) * p->w->n + p->n0],
                   (size_t)p->n * 4))
            return false;
    for (i = 0; perm && i < w->k; i++)
        if (!same_row(w, i, n0, p, perm[i]))
            return false;
    return true;
}

/* ---- a weight of which there is a sample only ------------------------------------------------ */

/* Word r of column c of the part, where the checkpoint is AWQ's, whose rows are never sorted. */
static uint32_t word_of_awq(const struct td_gptq_part *p, int64_t r, int64_t c)
{
    uint32_t word = 0;
    int j;

    for (j = 0; j < 8; j++)
        word |= td_awq_q(p->w->awq, p->w->n, p->k0 + r * 8 + j, p->n0 + c) << j * 4;
    return word;
}

/* Word r of column c of a weight whose row i is row perm[i] of the part; perm NULL: row k0 + i. */
static uint32_t word_of(const struct td_gptq_part *p, const int32_t *perm, int64_t r, int64_t c)
{
    const int bits = p->w->bits, pack = 32 / bits;
    const uint32_t *column;
    uint32_t word = 0;
    int j;

    if (p->w->awq)
        return word_of_awq(p, r, c);
    column = p->w->qweight + p->n0 + c;
    if (!perm)
        return column[(p->k0 / pack + r) * p->w->n];
    for (j = 0; j < pack; j++) {
        const int64_t row = perm[r * pack + j];

        word |= (column[row / pack * p->w->n] >> row % pack * bits & ((1u << bits) - 1)) << j * bits;
    }
    return word;
}

/* Those samples of w that lie in outputs [n0, n0 + p->n). */
static bool same_sample(const struct td_gptq_unpacked *w, const struct td_weight_fingerprint *sample,
                        int64_t n0, const struct td_gptq_part *p, const int32_t *perm)
{
    const uint64_t words = (uint64_t)(w->k * w->bits / 32 * w->n);
    unsigned i;

    for (i = 0; i < TD_FINGERPRINT_WORDS; i++) {
        int64_t at = (int64_t)td_fingerprint_at(words, i), c = at % w->n - n0;

        if (c >= 0 && c < p->n && word_of(p, perm, at / w->n, c) != sample->word[i])
            return false;
    }
    return true;
}

int td_gptq_match_qweight(const struct td_gptq_match *m, struct td_gptq_unpacked *w,
                          struct td_error *err)
{
    int32_t *perm = m->sorted ? malloc((size_t)w->k * sizeof *perm) : NULL;
    int64_t r, c, n0 = 0;
    int i;

    if (m->sorted && !perm)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld rows", (long long)w->k);
    if (perm)
        td_gptq_argsort_groups(m->part[0].w, perm);
    for (i = 0; i < m->layer.n; n0 += m->part[i++].n)
        for (r = 0; r < w->k * w->bits / 32; r++)
            for (c = 0; c < m->part[i].n; c++)
                w->qweight[r * w->n + n0 + c] = word_of(&m->part[i], perm, r, c);
    free(perm);
    return TD_OK;
}

void td_gptq_match_qzeros(const struct td_gptq_match *m, struct td_gptq_unpacked *w)
{
    const int bits = w->bits, pack = 32 / bits;
    int64_t g, c, n0 = 0;
    int i;

    w->zero_offset = m->part[0].w->zero_offset;
    memset(w->qzeros, 0, (size_t)(w->groups * (w->n / pack)) * 4);
    for (i = 0; i < m->layer.n; n0 += m->part[i++].n)
        for (g = 0; g < w->groups; g++)
            for (c = 0; c < m->part[i].n; c++)
                w->qzeros[g * (w->n / pack) + (n0 + c) / pack] |=
                    (uint32_t)(td_gptq_zero(m->part[i].w, td_gptq_part_first_group(&m->part[i]) + g,
                                            m->part[i].n0 + c) -
                               w->zero_offset)
                    << (n0 + c) % pack * bits;
}

/* ---- comparing all of it --------------------------------------------------------------------- */

/* Is `scaled` the number that a server makes of this zero point? A zero may have either sign. */
static bool is_scaled_zero(uint16_t scaled, int zero, uint16_t scale, enum td_dtype dtype)
{
    const float z = -(float)td_dtype_get(dtype, &scale, 0) * (float)zero;
    const uint16_t want = (uint16_t)td_dtype_bits(TD_DT_F32, &z, 0, dtype);

    return scaled == want || !((scaled | want) & 0x7fff);
}

/* Zero points and scales of every group. */
static bool same_groups(const struct td_gptq_wanted *wanted, int64_t n0, const struct td_gptq_part *p)
{
    const struct td_gptq_unpacked *w = wanted->w;
    int64_t g, i;

    for (g = 0; g < w->groups; g++)
        for (i = 0; i < p->n; i++) {
            const int64_t from = td_gptq_part_first_group(p) + g, col = p->n0 + i,
                          at = g * w->n + n0 + i;
            const int zero = td_gptq_zero(p->w, from, col);

            if (td_dtype_bits(TD_DT_F16, p->w->scales, (size_t)(from * p->w->n + col),
                              w->scale_dtype) != w->scales[at])
                return false;
            if (wanted->scaled_zeros ? !is_scaled_zero(wanted->scaled_zeros[at], zero, w->scales[at],
                                                       w->scale_dtype)
                                     : zero != zero_of(w, g, n0 + i))
                return false;
        }
    return true;
}

static bool same_parts(const struct td_gptq_wanted *wanted, const struct td_gptq_match *m,
                       const int32_t *perm)
{
    const struct td_gptq_unpacked *w = wanted->w;
    int64_t n0 = 0;
    int i;

    for (i = 0; i < m->layer.n; n0 += m->part[i++].n)
        if (!(wanted->sample ? same_sample(w, wanted->sample, n0, &m->part[i], perm)
                             : same_rows(w, n0, &m->part[i], perm)) ||
            !same_groups(wanted, n0, &m->part[i]))
            return false;
    return true;
}

/* ---- rows that are sorted by group ----------------------------------------------------------- */

/* Are the groups of the part's rows as large as w's?
 *   order : [k] the part's rows, sorted by group */
static bool groups_fit(const struct td_gptq_unpacked *w, const struct td_gptq_part *p,
                       const int32_t *order)
{
    int64_t i;

    for (i = 0; i < w->k && p->w->g_idx[order[i]] == i / (w->k / w->groups); i++)
        ;
    return i == w->k;
}

/* Find out which row of the part each row of w is, by content.
 *   order : [k] the part's rows, sorted by group; the groups fit
 *   used  : [k] zeros, scratch
 *   perm  : [k] filled: row i of w is row perm[i] of the part */
static bool match_rows(const struct td_gptq_unpacked *w, const struct td_gptq_part *p,
                       const int32_t *order, unsigned char *used, int32_t *perm)
{
    const int64_t size = w->k / w->groups;
    int64_t i, j;

    for (i = 0; i < w->k; i++) {
        int64_t g = i / size;

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

static bool same_sorted(const struct td_gptq_wanted *wanted, const struct td_gptq_match *m)
{
    const struct td_gptq_unpacked *w = wanted->w;
    int32_t *order = malloc((size_t)w->k * sizeof *order),
            *perm = malloc((size_t)w->k * sizeof *perm);
    unsigned char *used = calloc((size_t)w->k, 1);
    bool same = false;

    if (order && perm && used) {
        td_gptq_argsort_groups(m->part[0].w, order);
        same = groups_fit(w, &m->part[0], order) &&
               (wanted->sample ? same_parts(wanted, m, order)
                               : match_rows(w, &m->part[0], order, used, perm) &&
                                     same_parts(wanted, m, perm));
    }
    free(order);
    free(perm);
    free(used);
    return same;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool same_g_idx(const struct td_gptq_weight *a, const struct td_gptq_weight *b)
{
    return !a->g_idx == !b->g_idx && (!a->g_idx || !memcmp(a->g_idx, b->g_idx, (size_t)a->k * 4));
}

/* Look up the parts of m->layer. False: one is missing, or they do not fit each other. */
static bool find_parts(const struct td_checkpoint *ck, int bits, struct td_gptq_match *m)
{
    int i;

    for (i = 0; i < m->layer.n; i++) {
        const struct td_gptq_weight *part = td_checkpoint_find(ck, m->layer.part[i]),
                                    *first = m->part[0].w;

        m->part[i] = (struct td_gptq_part){.w = part};
        if (!part || part->bits != bits)
            return false;
        if (i && (part->k != first->k || !same_g_idx(part, first)))
            return false;
    }
    return m->layer.n > 0;
}

/* Can w have 1/ranks_k of the parts' inputs, in groups of their size? */
static bool inputs_fit(const struct td_gptq_unpacked *w, const struct td_gptq_match *m, int64_t ranks_k)
{
    int i;

    for (i = 0; i < m->layer.n; i++) {
        const struct td_gptq_weight *part = m->part[i].w;

        if (part->k != w->k * ranks_k ||
            ((part->groups > 1 || w->groups > 1) && part->group_size != w->k / w->groups))
            return false;
    }
    return ranks_k == 1 || m->layer.n == 1; /* layers whose inputs are shared out are not stacked */
}

/* Cut every part to the share of one rank, of those that share the outputs, or of ranks_k that share
 * the inputs. */
static bool cut_rank_share(const struct td_gptq_unpacked *w, struct td_gptq_match *m,
                           const struct td_rank_shares *shares, int64_t ranks_k, int64_t rank)
{
    int i;

    for (i = 0; i < m->layer.n; i++) {
        struct td_gptq_part *p = &m->part[i];

        p->n = p->w->n / shares->pieces[i];
        p->n0 = ranks_k > 1 ? 0 : td_rank_piece(shares, i, rank) * p->n;
        p->k0 = ranks_k > 1 ? rank * w->k : 0;
        if (p->n * w->bits % 32) /* a ref cannot name part of a word of zero points */
            return false;
    }
    m->unsliced = shares->ranks == 1 && ranks_k == 1;
    m->padded = false;
    return true;
}

static bool same_content(const struct td_gptq_wanted *wanted, struct td_gptq_match *m)
{
    const struct td_gptq_unpacked *w = wanted->w;
    const struct td_gptq_weight *first = m->part[0].w;
    bool all_k = first->k == w->k;

    m->sorted = !w->g_idx && first->g_idx;
    if (m->sorted)
        return wanted->sorted_rows && all_k && same_sorted(wanted, m);
    if (w->g_idx && (!all_k || !first->g_idx || memcmp(w->g_idx, first->g_idx, (size_t)w->k * 4)))
        return false;
    return same_parts(wanted, m, NULL);
}

/* Add to *found how many shares of m->layer that are cut so have the content of w. *out becomes the
 * first that was ever found. */
static void try_shares(const struct td_gptq_wanted *wanted, struct td_gptq_match *m,
                       const struct td_rank_shares *shares, int64_t ranks_k, int *found,
                       struct td_gptq_match *out)
{
    int64_t rank;

    for (rank = 0; rank < shares->ranks * ranks_k; rank++)
        if (cut_rank_share(wanted->w, m, shares, ranks_k, rank) && same_content(wanted, m) &&
            !(*found)++)
            *out = *m;
}

static void count_outputs(const struct td_gptq_match *m, int64_t n[TD_FUSED_PARTS])
{
    int i;

    for (i = 0; i < m->layer.n; i++)
        n[i] = m->part[i].w->n;
}

/* Do w's outputs from n0 on have no scale, and are its inputs from k0 on zeros? */
static bool has_padding_from(const struct td_gptq_unpacked *w, int64_t n0, int64_t k0)
{
    const int pack = 32 / w->bits;
    int64_t g, i;

    for (g = 0; g < w->groups; g++)
        for (i = n0; i < w->n; i++)
            if (w->scales[g * w->n + i] & 0x7fff)
                return false;
    for (i = k0 / pack * w->n; i < w->k / pack * w->n; i++)
        if (w->qweight[i])
            return false;
    return true;
}

/* Of w without its padding: a share with fewer outputs, inputs or both, as many as fit into w and no
 * fewer than padding to a multiple of PADDING explains. */
static void try_padded_share(const struct td_gptq_wanted *wanted, struct td_gptq_match *m, int ranks_n,
                             int64_t ranks_k, int *found, struct td_gptq_match *out)
{
    struct td_gptq_unpacked w = *wanted->w;
    const struct td_gptq_weight *part = m->part[0].w;
    const struct td_gptq_wanted without = {.w = &w};
    struct td_rank_shares shares = {.ranks = ranks_n};
    int64_t outputs = 0;
    int i, before = *found;

    for (i = 0; i < m->layer.n; i++) {
        shares.pieces[i] = ranks_n;
        outputs += m->part[i].w->n / ranks_n;
        if (m->part[i].w->n % ranks_n)
            return;
    }
    w.k = part->k / ranks_k;
    w.groups = part->groups == 1 ? 1 : w.k / part->group_size;
    if (outputs > w.n || w.n - outputs >= PADDING || w.k > wanted->w->k || wanted->w->k - w.k >= PADDING ||
        (outputs == w.n && w.k == wanted->w->k) || w.groups < 1 || w.groups > wanted->w->groups ||
        (part->groups > 1 && part->group_size != wanted->w->k / wanted->w->groups) ||
        !inputs_fit(&w, m, ranks_k) || !has_padding_from(wanted->w, outputs, w.k))
        return;
    try_shares(&without, m, &shares, ranks_k, found, out);
    if (!before && *found)
        out->padded = true;
}

static void try_padded(const struct td_gptq_wanted *wanted, struct td_gptq_match *m, int *found,
                       struct td_gptq_match *out)
{
    const int64_t k = m->part[0].w->k;
    int ranks;

    if (!wanted->padded || wanted->w->g_idx || wanted->sample)
        return;
    for (ranks = 1; ranks <= TD_RANKS_MAX; ranks++) {
        try_padded_share(wanted, m, ranks, 1, found, out);
        if (ranks > 1 && k % ranks == 0)
            try_padded_share(wanted, m, 1, ranks, found, out);
    }
}

/* The same of all shares. */
static void try_layer(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                      struct td_gptq_match *m, int *found, struct td_gptq_match *out)
{
    const struct td_gptq_unpacked *w = wanted->w;
    struct td_rank_shares ways[TD_RANK_WAYS];
    int64_t n[TD_FUSED_PARTS], ranks_k;
    int n_ways, i;

    if (!find_parts(ck, w->bits, m))
        return;
    count_outputs(m, n);
    ranks_k = m->part[0].w->k / w->k;
    n_ways = td_rank_shares_find(n, m->layer.n, w->n, ways);
    for (i = 0; i < n_ways && ranks_k <= TD_RANKS_MAX && inputs_fit(w, m, ranks_k); i++)
        if (ranks_k <= 1 || ways[i].ranks == 1)
            try_shares(wanted, m, &ways[i], ranks_k, found, out);
    try_padded(wanted, m, found, out);
}

int td_gptq_match_find(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                       struct td_gptq_match *out)
{
    struct td_gptq_match try;
    int found = 0;
    size_t i;

    for (i = 0; i < ck->n_layers; i++) {
        if (td_fused_single(ck->layers[i].name, &try.layer))
            try_layer(ck, wanted, &try, &found, out);
        if (td_fused_from(ck->layers[i].name, &try.layer))
            try_layer(ck, wanted, &try, &found, out);
    }
    return found;
}

int td_gptq_match_layer(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                        const struct td_fused *layer, struct td_gptq_match *out)
{
    struct td_gptq_match try = {.layer = *layer};
    int found = 0;

    try_layer(ck, wanted, &try, &found, out);
    return found;
}
