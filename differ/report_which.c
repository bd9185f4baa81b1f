/* report_which.c - which shapes are bad, and by how much over which limit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_which.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/numerics.h"

#define MAX_LAYERS 4 /* names of layers that a row tells */
#define MAX_ALIKE 32 /* different places that are counted */

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

static void add_bad(struct row *r, const struct td_judged_op *op)
{
    struct td_excess e;
    double t;

    td_op_excess(op, &e);
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

    td_op_excess(r->worst, &e);
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

/* ---- where in the matrix --------------------------------------------------------------------- */

/* The places of the worst row or column of each bad op, and the sizes of their axis. */
struct places { int64_t *at, *size; size_t n; };

static bool all_equal(const struct places *p)
{
    size_t i;

    for (i = 1; i < p->n; i++)
        if (p->at[i] != p->at[0])
            return false;
    return true;
}

/* The smallest power of two from 1 to 32 such that all places are among the last so many of an axis
 * more than twice as long; 0: there is none. */
static int64_t among_last(const struct places *p)
{
    int64_t last;
    size_t i;

    for (last = 1; last <= 32; last *= 2) {
        for (i = 0; i < p->n && p->size[i] - p->at[i] <= last && p->size[i] > 2 * last; i++)
            ;
        if (i == p->n)
            return last;
    }
    return 0;
}

/* The largest power of two from 4 to 128 that leaves the same remainder of all places; 0: there is
 * none. Few places agree by chance, so at least 6 are needed. */
static int64_t same_remainder(const struct places *p)
{
    int64_t step;
    size_t i;

    for (step = 128; step >= 4 && p->n >= 6; step /= 2) {
        for (i = 1; i < p->n && p->at[i] % step == p->at[0] % step; i++)
            ;
        if (i == p->n)
            return step;
    }
    return 0;
}

static void describe_places(const struct places *p, const char *what, struct td_buf *out)
{
    int64_t lo = p->at[0], hi = p->at[0], n;
    size_t i;

    for (i = 1; i < p->n; i++) {
        lo = p->at[i] < lo ? p->at[i] : lo;
        hi = p->at[i] > hi ? p->at[i] : hi;
    }
    if (p->n > 1 && (n = among_last(p)) > 0)
        n > 1 ? td_buf_addf(out, "the last %lld %ss", (long long)n, what)
              : td_buf_addf(out, "the last %s", what);
    else if (all_equal(p))
        td_buf_addf(out, "%s %lld", what, (long long)lo);
    else if ((n = same_remainder(p)) > 0)
        td_buf_addf(out, "%ss where %s %% %lld = %lld", what, what, (long long)n,
                    (long long)(p->at[0] % n));
    else
        td_buf_addf(out, "%ss %lld-%lld", what, (long long)lo, (long long)hi);
}

/* In which part the errors are furthest over the limit, in most of the ops: a row, a column, a
 * tile. */
static const char *densest_part(const struct td_judged_ops *ops)
{
    static const char *const PART[] = {"columns", "rows", "tiles"};
    size_t votes[TD_RMS_PARTS] = {0}, i;
    int part, best;

    for (i = 0; i < ops->n; i++) {
        const struct td_judged_op *op = &ops->op[i];

        if (!is_bad(op) || !op->candidate.present || !isfinite(op->candidate.score))
            continue;
        best = 0;
        for (part = 1; part < TD_RMS_PARTS; part++)
            if (td_op_rms(&op->candidate, part) > td_op_rms(&op->candidate, best))
                best = part;
        votes[best]++;
    }
    best = votes[TD_RMS_ROW] > votes[TD_RMS_COL] ? TD_RMS_ROW : TD_RMS_COL;
    best = votes[TD_RMS_TILE] > votes[best] ? TD_RMS_TILE : best;
    return votes[best] ? PART[best] : NULL;
}

/* The spread of the worst elements of all bad ops. */
static void add_worst_places(const struct td_judged_ops *ops, struct td_buf *words)
{
    int64_t *memory = malloc((4 * ops->n + 1) * sizeof *memory);
    struct places rows = {memory, memory + ops->n, 0},
                  columns = {memory + 2 * ops->n, memory + 3 * ops->n, 0};
    const char *part = densest_part(ops);
    size_t i;

    for (i = 0; memory && i < ops->n; i++) {
        const struct td_judged_op *op = &ops->op[i];

        if (!is_bad(op) || !op->candidate.present || op->candidate.crash ||
            op->candidate.row_at < 0 || op->candidate.col_at < 0)
            continue;
        rows.at[rows.n] = op->candidate.row_at;
        rows.size[rows.n++] = op->m;
        columns.at[columns.n] = op->candidate.col_at;
        columns.size[columns.n++] = op->n;
    }
    if (rows.n) {
        describe_places(&columns, "column", words);
        td_buf_adds(words, ", ");
        describe_places(&rows, "row", words);
        if (part)
            td_buf_addf(words, " (densest in %s)", part);
    }
    free(memory);
}

/* How often bad ops are over the limit in the same columns, or rows, by the words for them. */
struct alike { char words[80]; size_t n; };
struct axis { struct alike alike[MAX_ALIKE]; size_t n, most, known; };

static void count_alike(struct axis *a, const struct td_op_lines *l, const char *what)
{
    struct td_buf words = TD_BUF_INIT(sizeof a->alike[0].words);
    size_t k;

    if (l->all > 1)
        a->known++;
    td_op_lines_add_words(l, what, &words);
    for (k = 0; k < a->n && strcmp(a->alike[k].words, td_buf_str(&words)); k++)
        ;
    if (words.len && k < MAX_ALIKE) {
        if (k == a->n) {
            snprintf(a->alike[k].words, sizeof a->alike[k].words, "%s", td_buf_str(&words));
            a->alike[k].n = 0;
            a->n++;
        }
        a->alike[k].n++;
        a->most = a->alike[k].n > a->alike[a->most].n ? k : a->most;
    }
    td_buf_release(&words);
}

/* Append what most of the bad ops have in common, and in how many of them it holds. */
static void add_alike(const struct axis *a, struct td_buf *words)
{
    const struct alike *most = &a->alike[a->most];

    if (!a->n || 2 * most->n <= a->known)
        return;
    td_buf_addf(words, "%s%s", words->len ? ", " : "", most->words);
    if (most->n < a->known)
        td_buf_addf(words, " (%zu of %zu bad ops)", most->n, a->known);
}

static void add_common_place(const struct td_judged_ops *ops, struct td_buf *words)
{
    struct axis rows = {.n = 0}, cols = {.n = 0};
    size_t known = 0, everywhere = 0, i;
    bool numbers = true;

    for (i = 0; i < ops->n; i++) {
        const struct td_op_over *o = &ops->op[i].over;

        if (!is_bad(&ops->op[i]) || !o->present)
            continue;
        known++;
        everywhere += td_op_over_is_everywhere(o);
        numbers &= o->is_finite;
        count_alike(&cols, &o->cols, "column");
        count_alike(&rows, &o->rows, "row");
    }
    add_alike(&cols, words);
    add_alike(&rows, words);
    if (!words->len && 2 * everywhere > known)
        td_buf_adds(words, td_op_everywhere_words(numbers));
}

static void write_matrix(struct td_jw *w, const struct td_judged_ops *ops)
{
    struct td_buf words = TD_BUF_INIT(4096);

    add_common_place(ops, &words);
    if (!words.len)
        add_worst_places(ops, &words);
    td_jw_cstr(w, "matrix", words.len ? td_buf_str(&words) : NULL);
    td_buf_release(&words);
}

void td_which_write_json(struct td_jw *w, const struct td_judged_ops *ops)
{
    struct rows rows = {0};
    size_t i;

    collect(&rows, ops);
    td_jw_arr(w, "rows");
    for (i = 0; i < rows.n; i++)
        write_row(w, &rows.row[i]);
    td_jw_end(w);
    write_matrix(w, ops);
    free(rows.row);
}
