/* report_which.c - which shapes are bad, and by how much over which limit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_which.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/k_parts.h"
#include "differ/matrix_place.h"
#include "differ/numerics.h"

#define MAX_LAYERS 4  /* names of layers that a row tells */
#define MAX_SLICES 16 /* different ones that are counted */

static bool is_bad(const struct td_judged_op *op)
{
    return op->status != TD_OP_NONE && op->result == TD_RESULT_WORSE;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct row {
    const struct td_judged_op *worst; /* of the bad ones; also names kernel and shape */
    double worst_times;
    size_t bad, judged;
    int64_t m_min, m_max;           /* of the bad ones */
    const char *layers[MAX_LAYERS]; /* their last names */
    size_t lengths[MAX_LAYERS];
    int n_layers; /* MAX_LAYERS + 1: there are more */
};

struct rows {
    struct row *row;
    size_t n, cap;
};

static struct row *row_of(struct rows *rows, const struct td_judged_op *op)
{
    size_t i;

    for (i = 0; i < rows->n; i++)
        if (rows->row[i].worst->kind == op->kind && rows->row[i].worst->shape == op->shape)
            return &rows->row[i];
    return NULL;
}

static struct row *add_row(struct rows *rows, const struct td_judged_op *op)
{
    if (rows->n == rows->cap) {
        const size_t cap = rows->cap ? 2 * rows->cap : 32;
        struct row *grown = realloc(rows->row, cap * sizeof *grown);

        if (!grown)
            return NULL;
        rows->row = grown;
        rows->cap = cap;
    }
    rows->row[rows->n] =
        (struct row){.worst = op, .worst_times = -1, .m_min = INT64_MAX, .m_max = -1};
    return &rows->row[rows->n++];
}

/* The name of a layer without its place in the model: "down_proj"; of ggml's "blk.0.attn_q.weight"
 * it is "attn_q". */
static const char *last_name(const char *layer, size_t *len)
{
    const size_t n = strlen(layer), end = n > 7 && !strcmp(layer + n - 7, ".weight") ? n - 7 : n;
    size_t at = end;

    while (at > 0 && layer[at - 1] != '.')
        at--;
    *len = end - at;
    return layer + at;
}

static void add_layer(struct row *r, const char *layer)
{
    size_t len;
    const char *name = layer ? last_name(layer, &len) : NULL;
    int i = 0;

    if (!name || r->n_layers > MAX_LAYERS)
        return;
    while (i < r->n_layers && !(r->lengths[i] == len && !strncmp(r->layers[i], name, len)))
        i++;
    if (i < r->n_layers)
        return;
    if (i < MAX_LAYERS) {
        r->layers[i] = name;
        r->lengths[i] = len;
    }
    r->n_layers++;
}

/* The error that is furthest over its limit; of an op that is bad for its group's bias, that of the group. */
static void find_excess(const struct td_judged_op *op, struct td_excess *e)
{
    td_op_excess(op, e);
    if (!e->of && op->bias)
        *e = (struct td_excess){op->bias->test.measure == TD_SLICE_COARSE ? "rms" : "bias", op->bias->test.old_size,
                                op->bias->test.now_size, op->bias->limit};
}

static void add_bad(struct row *r, const struct td_judged_op *op)
{
    struct td_excess e;
    double t;

    find_excess(op, &e);
    t = e.of ? td_op_times(e.new_error, e.limit) : INFINITY; /* it crashed, hung or wrote nothing */
    if (t > r->worst_times) {
        r->worst_times = t;
        r->worst = op;
    }
    r->bad++;
    r->m_min = op->m < r->m_min ? op->m : r->m_min;
    r->m_max = op->m > r->m_max ? op->m : r->m_max;
    add_layer(r, op->layer);
}

/* The row that is furthest over its limit first; of equal ones that with the most bad ops. */
static int by_excess(const void *a, const void *b)
{
    const struct row *p = a, *q = b;

    if (p->worst_times != q->worst_times)
        return p->worst_times < q->worst_times ? 1 : -1;
    return p->bad != q->bad ? (p->bad < q->bad) - (p->bad > q->bad)
                            : (p->worst->op > q->worst->op) - (p->worst->op < q->worst->op);
}

static void collect(struct rows *rows, const struct td_judged_ops *ops)
{
    size_t i;

    for (i = 0; i < ops->n; i++)
        if (is_bad(&ops->op[i])) {
            struct row *r = row_of(rows, &ops->op[i]);

            r = r ? r : add_row(rows, &ops->op[i]);
            if (r)
                add_bad(r, &ops->op[i]);
        }
    for (i = 0; i < ops->n; i++)
        if (ops->op[i].status != TD_OP_NONE && ops->op[i].result != TD_RESULT_COMPARED) {
            struct row *r = row_of(rows, &ops->op[i]);

            if (r)
                r->judged++;
        }
    if (rows->n)
        qsort(rows->row, rows->n, sizeof *rows->row, by_excess);
}

/* Elements that differ between runs of one op, where the baseline repeats bit for bit: none may. */
static void add_unstable(const struct td_judged_op *op, struct td_excess *e)
{
    if (!e->of && op->status == TD_OP_OK && !op->candidate.crash && op->candidate.unstable > 0)
        *e = (struct td_excess){"repeats", 0, (double)op->candidate.unstable, 0};
}

static void write_row(struct td_jw *w, const struct row *r)
{
    struct td_excess e;
    int i;

    find_excess(r->worst, &e);
    add_unstable(r->worst, &e);
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "kind", r->worst->kind);
    td_jw_cstr(w, "shape", r->worst->shape);
    td_jw_arr(w, "layers");
    for (i = 0; i < r->n_layers && i < MAX_LAYERS; i++)
        td_jw_str(w, NULL, r->layers[i], r->lengths[i]);
    if (r->n_layers > MAX_LAYERS)
        td_jw_cstr(w, NULL, "...");
    td_jw_end(w);
    td_jw_i64(w, "m_min", r->m_min);
    td_jw_i64(w, "m_max", r->m_max);
    td_jw_i64(w, "n", r->worst->n);
    td_jw_i64(w, "k", r->worst->k);
    td_jw_i64(w, "bad", (int64_t)r->bad);
    td_jw_i64(w, "judged", (int64_t)r->judged);
    td_jw_cstr(w, "of", e.of);
    td_jw_num_or_null(w, "old_error", e.old_error);
    if (e.of && isnan(e.new_error))
        td_jw_num(w, "new_error", e.new_error);
    else
        td_jw_num_or_null(w, "new_error", e.new_error);
    td_jw_num_or_null(w, "limit", e.limit);
    td_jw_cstr(w, "why", r->worst->why);
    td_jw_end(w);
}

/* ---- where in the outputs --------------------------------------------------------------------- */

/* How many bad ops are of which slice, by the bias of their group. */
struct slices { struct { struct td_slice slice; size_t n; } of[MAX_SLICES]; int n; size_t bad; };

static void count_slice(struct slices *s, const struct td_slice *slice)
{
    int i;

    for (i = 0; i < s->n; i++)
        if (s->of[i].slice.kind == slice->kind && s->of[i].slice.mod == slice->mod && s->of[i].slice.rest == slice->rest)
            break;
    if (i == MAX_SLICES)
        return;
    if (i == s->n) {
        s->of[i].slice = *slice;
        s->of[i].n = 0;
        s->n++;
    }
    s->of[i].n++;
}

static void count_slices(const struct td_judged_ops *ops, struct slices *s)
{
    size_t i;

    s->n = 0;
    s->bad = 0;
    for (i = 0; i < ops->n; i++) {
        if (!is_bad(&ops->op[i]))
            continue;
        s->bad++;
        if (ops->op[i].bias)
            count_slice(s, &ops->op[i].bias->test.slice);
    }
}

/* The slice of most bad ops, if it is that of half of them, and a part of their outputs. */
static void add_slice(const struct slices *s, struct td_buf *words)
{
    char slice[64];
    int i, best = 0;

    for (i = 1; i < s->n; i++)
        if (s->of[i].n > s->of[best].n)
            best = i;
    if (!s->n || 2 * s->of[best].n < s->bad || s->of[best].slice.kind == TD_SLICE_ALL)
        return;
    td_slice_words(&s->of[best].slice, slice, sizeof slice);
    td_buf_adds(words, slice);
    if (s->of[best].n < s->bad)
        td_buf_addf(words, " in %zu of %zu bad ops", s->of[best].n, s->bad);
}

/* A bias of whole outputs alone has no worst places. */
static bool is_of_whole_outputs(const struct slices *s)
{
    return s->n == 1 && s->of[0].slice.kind == TD_SLICE_ALL && s->of[0].n == s->bad;
}

/* Which rows or columns the errors of those parts of K are in, where that is told sharply. */
static void add_place_of_parts(const struct td_judged_ops *ops, struct td_buf *words)
{
    struct td_buf place = TD_BUF_INIT(4096);

    td_matrix_place_add_words(ops, &place);
    if (place.len && !strstr(td_buf_str(&place), "everywhere") && !strstr(td_buf_str(&place), "densest"))
        td_buf_addf(words, "; %s", td_buf_str(&place));
    td_buf_release(&place);
}

void td_which_write_json(struct td_jw *w, const struct td_judged_ops *ops)
{
    struct td_buf words = TD_BUF_INIT(4096);
    struct rows rows = {0};
    struct slices slices;
    size_t i;

    collect(&rows, ops);
    td_jw_arr(w, "rows");
    for (i = 0; i < rows.n; i++)
        write_row(w, &rows.row[i]);
    td_jw_end(w);
    count_slices(ops, &slices);
    td_k_parts_add_words(ops, &words);
    if (words.len)
        add_place_of_parts(ops, &words);
    else
        add_slice(&slices, &words);
    if (!words.len)
        td_matrix_place_add_words(ops, &words);
    if (!words.len && is_of_whole_outputs(&slices))
        td_buf_adds(&words, "all elements");
    td_jw_cstr(w, "matrix", words.len ? td_buf_str(&words) : NULL);
    td_buf_release(&words);
    free(rows.row);
}
