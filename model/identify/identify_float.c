/* identify_float.c - identify weights that are plain numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * vLLM's CPU build gives some weights to oneDNN, which keeps them in a layout of its own behind a
 * handler: the tap can read a fingerprint only, and the bytes are the checkpoint's. Servers convert
 * 16-bit floats to the type that they compute in, to nearest even, when they load them: so does the
 * comparison. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint.h"
#include "model/identify/checkpoint_ref.h"
#include "model/identify/identify_entries.h"
#include "model/identify/rank_shares.h"

#define VOCABULARY 64

/* ---- stacks of the checkpoint's tensors ------------------------------------------------------ */

/* One tensor of the checkpoint, or those of a fused layer one under the other, or what one rank has
 * of that: some rows of each, or some columns of one; [n, cols]. */
struct stack {
    struct td_fused layer;
    const struct td_st_tensor *part[TD_FUSED_PARTS];
    struct td_ref_range rows[TD_FUSED_PARTS], cols;
    int64_t n;                         /* rows, with those of zeros behind the last part */
    bool whole, padded;                /* all of every part; there are rows of zeros */
};

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_BF16 || dt == TD_DT_F16 || dt == TD_DT_F32;
}

/* May a server have a weight of this type? */
static bool is_weight(enum td_dtype dt)
{
    return is_float(dt) || dt == TD_DT_F8_E4M3 || dt == TD_DT_F8_E5M2 || dt == TD_DT_I8;
}

static int64_t columns(const struct stack *st)
{
    return st->part[0]->shape[1];
}

/* Look up the tensors of st->layer, of type `to` or such as a server converts to it, and take all
 * of them. False: one is missing, or they do not fit together. */
static bool open_stack(const struct td_checkpoint *ck, enum td_dtype to, struct stack *st)
{
    char name[TD_FUSED_NAME + 16];
    int i;

    st->n = 0;
    st->whole = true, st->padded = false;
    for (i = 0; i < st->layer.n; i++) {
        const struct td_st_tensor *t;

        snprintf(name, sizeof name, "%s.weight", st->layer.part[i]);
        t = td_safetensors_find(ck->tensors, name);
        if (!t || (t->dtype != to && !(is_float(t->dtype) && is_float(to))) || t->ndim != 2 ||
            !t->data)
            return false;
        if (t->shape[0] < 1 || (i && (t->shape[1] != columns(st) || t->dtype != st->part[0]->dtype)))
            return false;
        st->part[i] = t;
        st->rows[i] = (struct td_ref_range){0, t->shape[0]};
        st->n += t->shape[0];
    }
    st->cols = (struct td_ref_range){0, columns(st)};
    return true;
}

/* The bits of one element, converted. */
static uint32_t stack_bits(const struct stack *st, uint64_t element, enum td_dtype to)
{
    int64_t row = (int64_t)(element / (uint64_t)st->cols.count),
            col = (int64_t)(element % (uint64_t)st->cols.count);
    int i;

    for (i = 0; i < st->layer.n && row >= st->rows[i].count; i++)
        row -= st->rows[i].count;
    if (i == st->layer.n)
        return 0;
    return td_dtype_bits(st->part[i]->dtype, st->part[i]->data,
                         (size_t)((st->rows[i].from + row) * columns(st) + st->cols.from + col), to);
}

/* All of its bytes, converted. to : room for n * cols elements */
static void convert_stack(const struct stack *st, enum td_dtype dtype, uint8_t *to)
{
    const size_t size = td_dtype_size(dtype), count = (size_t)st->cols.count;
    int64_t done = 0, r;
    size_t e;
    int i;

    for (i = 0; i < st->layer.n; done += st->rows[i++].count)
        for (r = 0; r < st->rows[i].count; r++, to += count * size) {
            const struct td_st_tensor *part = st->part[i];
            const size_t from = (size_t)((st->rows[i].from + r) * columns(st) + st->cols.from);

            if (part->dtype == dtype) {
                memcpy(to, (const uint8_t *)part->data + from * size, count * size);
                continue;
            }
            for (e = 0; e < count; e++) {
                uint32_t bits = td_dtype_bits(part->dtype, part->data, from + e, dtype);

                memcpy(to + e * size, &bits, size); /* little-endian, as the file is */
            }
        }
    memset(to, 0, (size_t)(st->n - done) * count * size);
}

/* ---- fingerprints ---------------------------------------------------------------------------- */

/* The fingerprint of a dense [n, k] weight whose bytes were sent. */
static struct td_weight_fingerprint make_fingerprint(const struct td_weight_tensor *w)
{
    struct td_weight_fingerprint p = {.rows = w->rec.shape[0], .cols = w->rec.shape[1]};
    const uint64_t words = w->size / 4;
    unsigned i;

    memcpy(p.dtype, w->rec.dtype, sizeof p.dtype);
    for (i = 0; i < TD_FINGERPRINT_WORDS && words; i++)
        memcpy(&p.word[i], (const uint8_t *)w->data + td_fingerprint_at(words, i) * 4, 4);
    return p;
}

static bool fingerprint_fits(const struct td_weight_fingerprint *p, enum td_dtype dtype,
                             const struct stack *st)
{
    uint64_t size = td_dtype_size(dtype), per = 4 / size,
             words = (uint64_t)st->n * (uint64_t)st->cols.count * size / 4, j;
    bool is_zero = true;
    unsigned i;

    if (st->n != p->rows || st->cols.count != p->cols || !words)
        return false;
    for (i = 0; i < TD_FINGERPRINT_WORDS; i++) {
        uint64_t at = td_fingerprint_at(words, i) * per;
        uint32_t word = 0;

        for (j = 0; j < per; j++)
            word |= stack_bits(st, at + j, dtype) << 8 * size * j;
        if (word != p->word[i])
            return false;
        is_zero &= !word;
    }
    return st->whole || !is_zero;       /* zeros are a part of anything */
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool is_embedding(const char *layer)
{
    const char *dot = strrchr(layer, '.');

    return strstr(dot ? dot : layer, "embed") != NULL;
}

/* Count st if it has the fingerprint; the first such becomes *best. An output layer may share the
 * embeddings' content: embeddings count only where no other layer has it. */
static void try_stack(const struct td_weight_fingerprint *p, enum td_dtype dtype,
                      const struct stack *st, int *found, struct stack *best)
{
    bool replaces;

    if (!fingerprint_fits(p, dtype, st))
        return;
    replaces = *found && is_embedding(best->layer.layer);
    if (*found && is_embedding(st->layer.layer))
        return;
    if (!*found || replaces)
        *best = *st;
    *found += !replaces;
}

/* All shares of the outputs that ranks of a server may have of all. */
static void try_row_shares(const struct td_weight_fingerprint *p, enum td_dtype dtype,
                           const struct stack *all, int *found, struct stack *best)
{
    struct td_rank_shares way[TD_RANK_WAYS];
    int64_t n[TD_FUSED_PARTS];
    int ways, w, rank, i;

    for (i = 0; i < all->layer.n; i++)
        n[i] = all->rows[i].count;
    ways = td_rank_shares_find(n, all->layer.n, p->rows, way);
    for (w = 0; w < ways; w++)
        for (rank = 0; rank < way[w].ranks; rank++) {
            struct stack st = *all;

            st.n = p->rows;
            st.whole = way[w].ranks == 1;
            for (i = 0; i < st.layer.n; i++) {
                st.rows[i].count = n[i] / way[w].pieces[i];
                st.rows[i].from = td_rank_piece(&way[w], i, rank) * st.rows[i].count;
            }
            try_stack(p, dtype, &st, found, best);
        }
}

/* A vocabulary is padded with rows of zeros to a multiple of VOCABULARY before it is divided (vLLM
 * 0.26: model_executor/layers/vocab_parallel_embedding.py). Where its own rows are divided without
 * a rest, the shares are those of try_row_shares. */
static void try_padded_rows(const struct td_weight_fingerprint *p, enum td_dtype dtype,
                            const struct stack *all, int *found, struct stack *best)
{
    const int64_t padded = (all->n + VOCABULARY - 1) / VOCABULARY * VOCABULARY;
    int64_t from;

    if (all->layer.n > 1 || padded == all->n || p->rows < 1 || padded % p->rows ||
        padded / p->rows > TD_RANKS_MAX || !(all->n % p->rows))
        return;
    for (from = 0; from < all->n; from += p->rows) {
        struct stack st = *all;

        st.n = p->rows;
        st.whole = false;
        st.padded = from + p->rows > all->n;
        st.rows[0] = (struct td_ref_range){from, st.padded ? all->n - from : p->rows};
        try_stack(p, dtype, &st, found, best);
    }
}

/* Shares of the inputs, of a layer that is not stacked. */
static void try_column_shares(const struct td_weight_fingerprint *p, enum td_dtype dtype,
                              const struct stack *all, int *found, struct stack *best)
{
    struct stack st = *all;

    if (all->layer.n > 1 || all->n != p->rows || columns(all) / p->cols > TD_RANKS_MAX)
        return;
    st.whole = false;
    st.cols.count = p->cols;
    for (; st.cols.from < columns(all); st.cols.from += p->cols)
        try_stack(p, dtype, &st, found, best);
}

/* st->layer, and what a rank may have of it. */
static void try_layer(const struct td_checkpoint *ck, const struct td_weight_fingerprint *p,
                      enum td_dtype dtype, struct stack *st, int *found, struct stack *best)
{
    if (!open_stack(ck, dtype, st))
        return;
    if (columns(st) == p->cols) {
        try_row_shares(p, dtype, st, found, best);
        try_padded_rows(p, dtype, st, found, best);
    } else {
        try_column_shares(p, dtype, st, found, best);
    }
}

/* Count the layers, single or fused, and shares of them, that have this fingerprint. The first is described in *out. */
static int find_stack(const struct td_checkpoint *ck, const struct td_weight_fingerprint *p,
                      enum td_dtype dtype, struct stack *out)
{
    const size_t tail = strlen(".weight");
    struct stack try;
    int found = 0;
    size_t i;

    for (i = 0; i < td_safetensors_count(ck->tensors); i++) {
        const struct td_st_tensor *t = td_safetensors_at(ck->tensors, i);
        size_t len = strlen(t->name);
        char name[TD_FUSED_NAME];

        if (t->ndim != 2 || p->cols < 1 || t->shape[1] % p->cols || len <= tail || len - tail >= sizeof name ||
            strcmp(t->name + len - tail, ".weight"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - tail), t->name);
        if (td_fused_single(name, &try.layer))
            try_layer(ck, p, dtype, &try, &found, out);
        if (td_fused_from(name, &try.layer))
            try_layer(ck, p, dtype, &try, &found, out);
    }
    return found;
}

/* ---- the set --------------------------------------------------------------------------------- */

/* Add tensor w with the stack's bytes, in w's own type. */
static int add_stack(struct td_weight_set *s, const struct td_weight_tensor *w, enum td_dtype dtype,
                     const struct stack *st, struct td_error *err)
{
    struct td_weight_tensor *t = td_weight_set_add_sent(s, w);

    if (!t)
        return td_weight_set_check(s, err);
    t->size = (size_t)st->n * (size_t)st->cols.count * td_dtype_size(dtype);
    if (st->layer.n == 1 && st->part[0]->dtype == dtype && st->cols.count == columns(st) &&
        !st->padded) {
        t->data = (const uint8_t *)st->part[0]->data +
                  (size_t)(st->rows[0].from * columns(st)) * td_dtype_size(dtype);
        return TD_OK;
    }
    t->data = t->owned = malloc(t->size + 1);
    if (!t->owned)
        return td_fail(err, TD_ENOMEM, "out of memory for a weight of %zu bytes", t->size);
    convert_stack(st, dtype, t->owned);
    return TD_OK;
}

/* Find the stack with this fingerprint and make it the first tensor of the output. The caller has
 * none yet; s->matches is set. */
static int add_match(struct td_weight_set *s, const struct td_weight_fingerprint *p,
                     enum td_dtype dtype, struct stack *st, struct td_error *err)
{
    const struct td_checkpoint *ck = s->layers ? td_layer_index_checkpoint(s->layers) : NULL;

    s->matches = ck ? find_stack(ck, p, dtype, st) : 0;
    return s->matches ? add_stack(s, &s->sent[0], dtype, st, err) : TD_OK;
}

/* Say which tensors of the checkpoint, and how much of them, the first tensor of the output is. One
 * with rows of zeros gets no ref, for the checkpoint has none. */
static void refer(struct td_weight_set *s, const struct stack *st)
{
    const struct td_ref_range cols[TD_FUSED_PARTS] = {st->cols, st->cols, st->cols};

    if (st->padded)
        return;
    td_checkpoint_ref_layer(s, 0, &st->layer, "weight", st->part[0]->dtype);
    if (!st->whole)
        td_checkpoint_ref_slice(&s->t[0].rec, st->rows, cols, st->layer.n);
}

/* Refer to the stack, or, without one, add the first tensor as it was sent; then add what came
 * beside it, a bias. */
static void finish(struct td_weight_set *s, const struct stack *st)
{
    int i;

    if (s->matches)
        refer(s, st);
    else
        td_weight_set_add_sent(s, &s->sent[0]);
    if (s->matches == 1)
        snprintf(s->layer, sizeof s->layer, "%s", st->layer.layer);
    for (i = 1; i < s->n_sent; i++)
        td_weight_set_add_sent(s, &s->sent[i]);
}

int td_identify_float_opaque(struct td_weight_set *s, struct td_error *err)
{
    const struct td_weight_fingerprint *p = s->fingerprint;
    enum td_dtype dtype = p ? td_dtype_parse(p->dtype) : TD_DT_NONE;
    const struct td_tensor_rec *w = s->n_sent ? &s->sent[0].rec : NULL;
    struct stack st;
    int rc;

    if (!is_float(dtype) || !w || s->sent[0].data || w->ndim != 2 || w->shape[0] != p->rows ||
        w->shape[1] != p->cols || td_dtype_parse(w->dtype) != dtype)
        return td_fail(err, TD_EUNSUPPORTED,
                       "a weight behind a handler, without a fingerprint of it");
    rc = add_match(s, p, dtype, &st, err);
    if (!rc)
        finish(s, &st);
    return rc;
}

int td_identify_float(struct td_weight_set *s, struct td_error *err)
{
    const struct td_weight_tensor *w = s->n_sent ? &s->sent[0] : NULL;
    const enum td_dtype dtype = w ? td_dtype_parse(w->rec.dtype) : TD_DT_NONE;
    const void *bytes =
        w && w->rec.ndim == 2 ? td_weight_set_sent(s, "w", w->rec.dtype, 2, w->rec.shape) : NULL;
    struct td_weight_fingerprint p;
    struct stack st;
    int rc;

    if (!is_weight(dtype) || !bytes)
        return td_fail(err, TD_EUNSUPPORTED, "a weight that is no matrix of floats");
    p = make_fingerprint(w);
    rc = add_match(s, &p, dtype, &st, err);
    if (rc)
        return rc;
    if (s->matches && memcmp(s->t[0].data, bytes, s->t[0].size)) { /* the server's copy is what its
                                                                      ops are to have */
        free(s->t[0].owned);
        s->t[0].owned = NULL;
        s->matches = s->n = 0;
    }
    finish(s, &st);
    return TD_OK;
}
