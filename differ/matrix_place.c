/* matrix_place.c - what the bad ops have in common in the place of their errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/matrix_place.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/op_decide.h"

#define MAX_ALIKE 32   /* different places that are counted */
#define MAX_SIZES 3    /* that are told */
#define ALL_BUT   0.9  /* of the rows or columns behind those that are right: so many are bad */
#define CHANCE    1e-3 /* of rows or columns that are right by chance */

static bool is_bad(const struct td_judged_op *op)
{
    return op->status != TD_OP_NONE && op->result == TD_RESULT_WORSE;
}

/* ---- the worst places ------------------------------------------------------------------------ */

/* The places of the worst row or column of each bad op, and the sizes of their axis. */
struct places {
    int64_t *at, *size;
    size_t n;
};

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

/* The spread of the worst elements of all bad ops. One that is bad for another reason than its
 * errors has no place. */
static void add_worst_places(const struct td_judged_ops *ops, struct td_buf *words)
{
    int64_t *memory = malloc((4 * ops->n + 1) * sizeof *memory);
    struct places rows, columns;
    const char *part = densest_part(ops);
    struct td_excess e;
    size_t i;

    if (!memory)
        return;
    rows = (struct places){memory, memory + ops->n, 0};
    columns = (struct places){memory + 2 * ops->n, memory + 3 * ops->n, 0};
    for (i = 0; i < ops->n; i++) {
        const struct td_judged_op *op = &ops->op[i];

        td_op_excess(op, &e);
        if (!is_bad(op) || (!e.of && op->status == TD_OP_OK) || !op->candidate.present ||
            op->candidate.crash || op->candidate.row_at < 0 || op->candidate.col_at < 0)
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

/* ---- the places over the limit --------------------------------------------------------------- */

/* How often bad ops are over the limit in the same columns, or rows, by the words for them. */
struct votes {
    struct alike {
        char words[80];
        size_t n;
    } alike[MAX_ALIKE];
    size_t n, most;
};

/* What the ops say of their rows, or of their columns. */
struct axis {
    const char *what;          /* "row", "column" */
    size_t known;              /* ops with more than one of them */
    struct votes places, ends; /* ends: counted from the last one */
    int64_t spared;            /* so many at the start are right in all ops; -1: not known */
    bool differ;               /* ops differ in that number */
    double bad, others;        /* bad ones; all but the spared ones */
    double log_chance;         /* that the spared ones are right by chance */
};

static void vote(struct votes *v, const struct td_buf *words)
{
    size_t k;

    for (k = 0; k < v->n && strcmp(v->alike[k].words, td_buf_str(words)); k++)
        ;
    if (!words->len || k == MAX_ALIKE)
        return;
    if (k == v->n) {
        snprintf(v->alike[k].words, sizeof v->alike[k].words, "%s", td_buf_str(words));
        v->alike[k].n = 0;
        v->n++;
    }
    v->alike[k].n++;
    v->most = v->alike[k].n > v->alike[v->most].n ? k : v->most;
}

static void add_lines(struct axis *a, const struct td_op_lines *l)
{
    struct td_buf words = TD_BUF_INIT(sizeof a->places.alike[0].words);
    const int64_t from_end = l->all - l->first;

    if (l->all < 2 || l->bad < 1)
        return;
    a->known++;
    td_op_lines_add_words(l, a->what, &words);
    vote(&a->places, &words);
    if (words.len && !l->period && l->first > 0 && l->last == l->all - 1) {
        words.len = 0;
        if (from_end > 1)
            td_buf_addf(&words, "the last %lld %ss", (long long)from_end, a->what);
        else
            td_buf_addf(&words, "the last %s", a->what);
        vote(&a->ends, &words);
    }
    a->differ |= a->spared >= 0 && a->spared != l->first;
    a->spared = l->first;
    a->bad += (double)l->bad;
    a->others += (double)(l->all - l->first);
    a->log_chance += (double)l->bad * log1p(-(double)l->first / (double)l->all);
    td_buf_release(&words);
}

/* Append what most of the bad ops have in common, and in how many of them it holds. */
static bool add_most(const struct axis *a, const struct votes *v, struct td_buf *words)
{
    const struct alike *most = &v->alike[v->most];

    if (!v->n || 2 * most->n <= a->known)
        return false;
    td_buf_addf(words, "%s%s", words->len ? ", " : "", most->words);
    if (most->n < a->known)
        td_buf_addf(words, " (%zu of %zu bad ops)", most->n, a->known);
    return true;
}

/* The simplest words that fit: the places of most ops, then those counted from the end, then that
 * all but the first few are bad. One op with 27 bad rows of 28 proves nothing about its first row;
 * a hundred such ops do. */
static void add_axis(const struct axis *a, struct td_buf *words)
{
    if (add_most(a, &a->places, words) || add_most(a, &a->ends, words))
        return;
    if (a->spared > 0 && !a->differ && a->bad >= ALL_BUT * a->others && a->log_chance < log(CHANCE))
        td_buf_addf(words, "%s%ss >= %lld", words->len ? ", " : "", a->what, (long long)a->spared);
}

/* ---- everywhere ------------------------------------------------------------------------------ */

/* Bad ops of one kernel and one size of the weights. */
struct size {
    const struct td_judged_op *op;
    int64_t m_min, m_max;
};

static bool is_same_kernel(const struct td_judged_op *a, const struct td_judged_op *b)
{
    static const char *const ATTRS[] = {"bits", "group_size", "act_order"};
    size_t i;

    for (i = 0; i < sizeof ATTRS / sizeof *ATTRS; i++)
        if (td_judged_op_attr(a, ATTRS[i], 0) != td_judged_op_attr(b, ATTRS[i], 0))
            return false;
    return a->k == b->k && a->weights == b->weights && !strcmp(a->kind, b->kind);
}

static struct size *find_size(struct size *sizes, size_t n, const struct td_judged_op *op)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (sizes[i].op->n == op->n && is_same_kernel(sizes[i].op, op))
            return &sizes[i];
    return NULL;
}

/* The sizes of the bad ops; 0: there are more than MAX_ALIKE. */
static size_t collect_sizes(const struct td_judged_ops *ops, struct size *sizes)
{
    size_t i, n = 0;

    for (i = 0; i < ops->n; i++) {
        const struct td_judged_op *op = &ops->op[i];
        struct size *s = is_bad(op) ? find_size(sizes, n, op) : NULL;

        if (!is_bad(op))
            continue;
        if (!s && n == MAX_ALIKE)
            return 0;
        if (!s)
            sizes[n] = (struct size){op, op->m, op->m};
        s = s ? s : &sizes[n++];
        s->m_min = op->m < s->m_min ? op->m : s->m_min;
        s->m_max = op->m > s->m_max ? op->m : s->m_max;
    }
    return n;
}

/* An op that is right with the K and the rows of these bad ones, and with an N of which no op is
 * bad. NULL: there is none, or another op of their own size is right. */
static const struct td_judged_op *right_beside(const struct td_judged_ops *ops, struct size *sizes,
                                               size_t n, const struct size *bad)
{
    const struct td_judged_op *found = NULL;
    size_t i;

    for (i = 0; i < ops->n; i++) {
        const struct td_judged_op *op = &ops->op[i];

        if (op->status == TD_OP_NONE || op->result != TD_RESULT_OK || op->m < bad->m_min ||
            op->m > bad->m_max || op->n < 0 || !is_same_kernel(op, bad->op))
            continue;
        if (op->n == bad->op->n)
            return NULL;
        if (!find_size(sizes, n, op))
            found = op;
    }
    return found;
}

/* Numbers that are wrong alike in all rows and columns got a wrong sum over K, unless K is summed
 * up right wherever N is another. */
static void add_everywhere(const struct td_judged_ops *ops, bool numbers, struct td_buf *words)
{
    struct size sizes[MAX_ALIKE];
    const struct td_judged_op *right = NULL;
    size_t n = collect_sizes(ops, sizes), i, k, told = 0;

    for (i = 0; i < n && (!i || right); i++)
        right = right_beside(ops, sizes, n, &sizes[i]);
    if (!right) {
        td_buf_adds(words,
                    numbers && sizes[0].op->k >= 0 ? "everywhere: look along K" : "everywhere");
        return;
    }
    td_buf_adds(words, "everywhere where N = ");
    for (i = 0; i < n && told < MAX_SIZES; i++) {
        for (k = 0; k < i && sizes[k].op->n != sizes[i].op->n; k++)
            ;
        if (k == i)
            td_buf_addf(words, "%s%lld", told++ ? ", " : "", (long long)sizes[i].op->n);
    }
    td_buf_addf(words, "%s, right where N = %lld: look at the tiles of N", i < n ? " ..." : "",
                (long long)right->n);
}

static void add_common_place(const struct td_judged_ops *ops, struct td_buf *words)
{
    struct axis rows = {.what = "row", .spared = -1}, cols = {.what = "column", .spared = -1};
    size_t known = 0, everywhere = 0, i;
    bool numbers = true;

    for (i = 0; i < ops->n; i++) {
        const struct td_op_over *o = ops->op[i].over;

        if (!is_bad(&ops->op[i]) || !o)
            continue;
        known++;
        everywhere += td_op_over_is_everywhere(o);
        numbers &= o->is_finite;
        add_lines(&cols, &o->cols);
        add_lines(&rows, &o->rows);
    }
    add_axis(&cols, words);
    add_axis(&rows, words);
    if (!words->len && 2 * everywhere > known)
        add_everywhere(ops, numbers, words);
}

void td_matrix_place_add_words(const struct td_judged_ops *ops, struct td_buf *words)
{
    const size_t had = words->len;

    add_common_place(ops, words);
    if (words->len == had)
        add_worst_places(ops, words);
}
