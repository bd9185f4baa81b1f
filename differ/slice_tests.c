/* slice_tests.c - is a slice of a kernel's outputs biased, beside the baseline's?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/slice_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/stats.h"

#define LEAST_CLASSES 8 /* of columns, to know how far they lie apart */
#define FEW_COLUMNS 8
#define FEW_COLUMNS_ROOM 8

static void name_tail(char *out, size_t n, const char *of, int tile)
{
    if (tile == 1)
        snprintf(out, n, "the last %s", of);
    else
        snprintf(out, n, "the last tile of %d %ss", tile, of);
}

void td_slice_words(const struct td_slice *s, char *out, size_t n)
{
    switch (s->kind) {
    case TD_SLICE_ALL: snprintf(out, n, "all elements"); break;
    case TD_SLICE_COLS: snprintf(out, n, "columns = %d mod %d", s->rest, s->mod); break;
    case TD_SLICE_ROWS: snprintf(out, n, "rows = %d mod %d", s->rest, s->mod); break;
    case TD_SLICE_COL_TAIL: name_tail(out, n, "column", s->mod); break;
    case TD_SLICE_ROW_TAIL: name_tail(out, n, "row", s->mod); break;
    }
}

/* ---- sums of a slice ------------------------------------------------------------------------- */

/* Of a slice of some outputs: w, the weight (sum(x x), or n); each side's sum(e x), or sum(e). */
struct cell { double w, old, now, n, xx; };

/* Which tail is that of this tile? -1: there are no sums of tiles that small. */
static int tail_of(int first, int tile)
{
    int t = 0;

    while (first << t < tile)
        t++;
    return first << t == tile ? t : -1;
}

static void add_stored(const struct td_slice_op *op, int at, double n, enum td_slice_measure m,
                       struct cell *c)
{
    const enum td_slice_sum of = m == TD_SLICE_SLOPE ? TD_SUM_EX : TD_SUM_E;
    const double xx = ((double)op->old->sum[TD_SUM_XX][at] + (double)op->now->sum[TD_SUM_XX][at]) / 2;

    c->w += m == TD_SLICE_SLOPE ? xx : n;
    c->xx += xx;
    c->n += n;
    c->old += (double)op->old->sum[of][at];
    c->now += (double)op->now->sum[of][at];
}

static void add_classes(const struct td_slice_op *op, const struct td_slice *s,
                        enum td_slice_measure m, struct cell *c)
{
    const bool cols = s->kind == TD_SLICE_COLS;
    const int64_t rows = op->now->rows, width = op->now->cols, across = cols ? rows : width;
    const struct td_slice_range r = cols ? td_slices_cols_of(width) : td_slices_rows_of(rows, width);
    /* td_slices_count() of class i: all / most, and one more of those up to the rest */
    const int64_t each = cols ? width / TD_SLICES_COLS : rows / TD_SLICES_ROWS, rest = cols ? width % TD_SLICES_COLS : rows % TD_SLICES_ROWS;
    int i;

    for (i = s->rest; i < r.n; i += s->mod)
        add_stored(op, r.first + i, (double)(across * (each + (i < rest))), m, c);
}

/* Add an op's sums of a slice. Nothing is added when it has no such slice. */
static void add_op(const struct td_slice_op *op, const struct td_slice *s, enum td_slice_measure m,
                   struct cell *c)
{
    const int64_t rows = op->now->rows, cols = op->now->cols;
    struct td_slices_layout layout;
    int t;

    switch (s->kind) {
    case TD_SLICE_ALL: add_stored(op, 0, (double)rows * (double)cols, m, c); return;
    case TD_SLICE_COLS:
    case TD_SLICE_ROWS: add_classes(op, s, m, c); return;
    case TD_SLICE_COL_TAIL:
    case TD_SLICE_ROW_TAIL: break;
    }
    t = tail_of(op->now->first_tail, s->mod);
    td_slices_layout_of(rows, cols, op->now->first_tail, &layout);
    if (t < 0)
        return;
    if (s->kind == TD_SLICE_COL_TAIL && t < layout.col_tails.n)
        add_stored(op, layout.col_tails.first + t,
                   (double)rows * (double)(cols - td_slices_tail_start(cols, s->mod)), m, c);
    if (s->kind == TD_SLICE_ROW_TAIL && t < layout.row_tails.n)
        add_stored(op, layout.row_tails.first + t,
                   (double)cols * (double)(rows - td_slices_tail_start(rows, s->mod)), m, c);
}

bool td_slice_is_unknown(const struct td_slice_op *ops, size_t n, const struct td_slice *slice)
{
    size_t i;

    for (i = 0; i < n; i++)
        if ((slice->kind == TD_SLICE_COL_TAIL || slice->kind == TD_SLICE_ROW_TAIL) && slice->mod < ops[i].now->first_tail)
            return true;
    return false;
}

double td_slice_estimate(const struct td_slice_op *ops, size_t n, const struct td_slice *slice,
                         enum td_slice_measure measure)
{
    struct cell c = {0};
    size_t i;

    for (i = 0; i < n; i++)
        add_op(&ops[i], slice, measure, &c);
    return c.w > 0 ? (c.now - c.old) / c.w : NAN;
}

/* ---- variance over blocks -------------------------------------------------------------------- */

/* Two estimates are tested: the candidate's less the baseline's, and, where their signs differ, how much
 * larger the one is than the other, which then is their sum. */
enum of_sides { LESS, PLUS };

static double join(const struct cell *c, enum of_sides of)
{
    return of == LESS ? c->now - c->old : c->now + c->old;
}

/* Sums over blocks, d being what is estimated of a block and w its weight. */
struct moments { double d, w, dd, dw, ww, most_w; size_t blocks; };

static void add_block(struct moments *m, const struct cell *c, enum of_sides of)
{
    const double d = join(c, of);

    if (!(c->w > 0))
        return;
    m->blocks++;
    m->d += d;
    m->w += c->w;
    m->dd += d * d;
    m->dw += d * c->w;
    m->ww += c->w * c->w;
    m->most_w = fmax(m->most_w, c->w);
}

/* m: by enum of_sides. all: the sums of the whole set */
static void measure_blocks(const struct td_slice_op *ops, size_t n, const struct td_slice *s,
                           enum td_slice_measure measure, struct moments m[2], struct cell *all)
{
    size_t i, end;

    memset(m, 0, 2 * sizeof *m);
    memset(all, 0, sizeof *all);
    for (i = 0; i < n; i = end) {
        struct cell block = {0};

        for (end = i; end < n && ops[end].input == ops[i].input; end++) {
            add_op(&ops[end], s, measure, &block);
            add_op(&ops[end], s, measure, all);
        }
        add_block(&m[LESS], &block, LESS);
        add_block(&m[PLUS], &block, PLUS);
    }
}

/* How many blocks of equal weight these are worth. */
static double worth(const struct moments *m)
{
    return m->ww > 0 ? m->w * m->w / m->ww : 0;
}

static double variance_of_blocks(const struct moments *m)
{
    const double est = m->d / m->w, n = (double)m->blocks, share = m->most_w / m->w,
                 squares = fmax(0, m->dd - 2 * est * m->dw + est * est * m->ww);

    return (n - 1) / n * squares / (m->w * m->w) / ((1 - share) * (1 - share));
}

double td_slice_blocks(const struct td_slice_op *ops, size_t n)
{
    const struct td_slice whole = {TD_SLICE_ALL, 1, 0};
    struct moments m[2];
    struct cell all;

    measure_blocks(ops, n, &whole, TD_SLICE_SLOPE, m, &all);
    return worth(m);
}

/* ---- variance over columns ------------------------------------------------------------------- */

/* The 64 classes of columns of a set, one measure. */
struct classes { struct cell of[TD_SLICES_COLS]; int n; double elements; int64_t cols; };

static void measure_classes(const struct td_slice_op *ops, size_t n, enum td_slice_measure measure,
                            struct classes *k)
{
    size_t i;
    int c;

    memset(k, 0, sizeof *k);
    k->cols = n ? ops[0].now->cols : 0;
    for (c = 0; c < TD_SLICES_COLS; c++) {
        const struct td_slice s = {TD_SLICE_COLS, TD_SLICES_COLS, c};

        for (i = 0; i < n; i++)
            add_op(&ops[i], &s, measure, &k->of[c]);
        k->n += k->of[c].w > 0;
        k->elements += k->of[c].n;
    }
}

/* Where a class of columns stands. A slice of columns has all of a class or none. The last tile has some columns of a class: then it
 * tells nothing of how far right columns lie apart, and is left out. */
enum side { INSIDE, OUTSIDE, LEFT_OUT };

static int columns_left_out(const struct classes *k, const struct td_slice *s)
{
    const int64_t n = s->kind == TD_SLICE_COL_TAIL ? k->cols - td_slices_tail_start(k->cols, s->mod) : 0;

    return k->n - n >= LEAST_CLASSES ? (int)n : 0;
}

static enum side side_of(const struct classes *k, const struct td_slice *s, int c)
{
    const int64_t from_last = (k->cols - 1 - c) % TD_SLICES_COLS; /* of the class's last column */

    if (s->kind == TD_SLICE_COLS)
        return c % s->mod == s->rest ? INSIDE : OUTSIDE;
    return from_last < columns_left_out(k, s) ? LEFT_OUT : OUTSIDE;
}

/* The squares of the classes on one side of a slice, about their own mean. */
static double squares_of_classes(const struct classes *k, const struct td_slice *s, enum of_sides of, enum side side)
{
    double d = 0, w = 0, sum = 0;
    int c;

    for (c = 0; c < TD_SLICES_COLS; c++)
        if (side_of(k, s, c) == side) {
            d += join(&k->of[c], of);
            w += k->of[c].w;
        }
    for (c = 0; c < TD_SLICES_COLS; c++)
        if (side_of(k, s, c) == side && k->of[c].w > 0) {
            const double off = join(&k->of[c], of) - d / w * k->of[c].w;

            sum += off * off / k->of[c].w;
        }
    return sum;
}

/* The variance of a slice's estimate that follows from how far classes lie apart. *dof: lowered to
 * what it rests on. */
static double variance_of_columns(const struct classes *k, const struct td_slice *s, enum of_sides of, double w,
                                  double *dof)
{
    const double free = k->n - columns_left_out(k, s) - (s->kind == TD_SLICE_COLS ? 2 : 1);

    if (k->n < LEAST_CLASSES)
        return 0;
    *dof = fmin(*dof, free);
    return (squares_of_classes(k, s, of, INSIDE) + squares_of_classes(k, s, of, OUTSIDE)) / free / w;
}

/* ---- ops that stand far out ------------------------------------------------------------------ */

static double rms_of(const struct td_slice_op *op)
{
    const double squares = fmax((double)op->old->sum[TD_SUM_EE][0], (double)op->now->sum[TD_SUM_EE][0]);

    return sqrt(squares / ((double)op->now->rows * (double)op->now->cols));
}

void td_slice_mark_odd(struct td_slice_op *ops, size_t n, double least)
{
    double *rms = malloc((n + 1) * sizeof *rms), limit = INFINITY;
    size_t i;

    for (i = 0; i < n && rms; i++)
        rms[i] = rms_of(&ops[i]);
    if (rms && n)
        limit = 3 * fmax(td_stat_median(rms, n), least);
    for (i = 0; i < n; i++)
        ops[i].odd = rms_of(&ops[i]) > limit;
    free(rms);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Of slope, a bias of b has the size b x at an element. */
static double size_of(double sum, const struct cell *all, enum td_slice_measure measure)
{
    return fabs(sum / all->w) * (measure == TD_SLICE_SLOPE ? sqrt(all->xx / all->n) : 1);
}

/* Is it one of so few columns that their own errors need not be normal, as means over many are? What repeats in all ops of a layer then
 * counts several times: the last column may have the largest such error of all. */
static bool is_of_few_columns(const struct td_slice *s)
{
    return s->kind == TD_SLICE_COL_TAIL && s->mod < FEW_COLUMNS;
}

/* The p of an estimate; *error, *dof: NULL where not wanted. */
static double p_of(const struct moments *m, const struct classes *k, const struct td_slice *s, enum of_sides of,
                   double *error, double *dof)
{
    double free = worth(m) - 1;
    const double est = m->d / m->w, over_blocks = variance_of_blocks(m), over_columns = variance_of_columns(k, s, of, m->w, &free),
                 repeated = is_of_few_columns(s) ? FEW_COLUMNS_ROOM * fmax(0, over_columns - over_blocks) : 0,
                 deviation = sqrt(over_blocks + over_columns + repeated);

    if (error)
        *error = deviation;
    if (dof)
        *dof = free;
    return td_stat_t_p(est == 0 ? 0 : fabs(est) / deviation, free);
}

static bool test_slice(const struct td_slice_op *ops, size_t n, const struct classes *k,
                       const struct td_slice *s, enum td_slice_measure measure, double min_blocks,
                       struct td_slice_test *out)
{
    struct moments m[2];
    struct cell all;

    measure_blocks(ops, n, s, measure, m, &all);
    if (worth(m) < min_blocks)
        return false;
    *out = (struct td_slice_test){.slice = *s, .measure = measure, .blocks = m->blocks};
    out->est = m->d / m->w;
    out->p = p_of(&m[LESS], k, s, LESS, &out->error, &out->dof);
    if ((all.old < 0) != (all.now < 0))
        out->p = fmax(out->p, p_of(&m[PLUS], k, s, PLUS, NULL, NULL));
    out->share = all.n / k->elements;
    out->old_size = size_of(all.old, &all, measure);
    out->now_size = size_of(all.now, &all, measure);
    return true;
}

/* Tiles of two sizes may leave the same rest; then the smaller says it. first: the smallest tile that all ops have sums of */
static bool is_new_tail(int64_t all, int tile, int first)
{
    return tile == TD_SLICES_FIRST_TAIL || tile == first || td_slices_tail_start(all, tile) != td_slices_tail_start(all, tile / 2);
}

/* All slices of outputs up to this size. Returns how many. */
static size_t list_slices(int64_t rows, int64_t cols, int first, struct td_slice *out)
{
    size_t n = 0;
    int mod, rest, tile;

    out[n++] = (struct td_slice){TD_SLICE_ALL, 1, 0};
    for (mod = 2; mod <= TD_SLICES_COLS; mod *= 2)
        for (rest = 0; rest < mod && mod <= cols; rest++)
            out[n++] = (struct td_slice){TD_SLICE_COLS, mod, rest};
    for (mod = 2; mod <= TD_SLICES_ROWS; mod *= 2)
        for (rest = 0; rest < mod && mod <= rows; rest++)
            out[n++] = (struct td_slice){TD_SLICE_ROWS, mod, rest};
    for (tile = TD_SLICES_FIRST_TAIL; tile <= TD_SLICES_LAST_TAIL && tile < cols; tile *= 2)
        if (is_new_tail(cols, tile, first))
            out[n++] = (struct td_slice){TD_SLICE_COL_TAIL, tile, 0};
    for (tile = TD_SLICES_FIRST_TAIL; tile <= TD_SLICES_LAST_TAIL && tile < rows; tile *= 2)
        out[n++] = (struct td_slice){TD_SLICE_ROW_TAIL, tile, 0};
    return n;
}

size_t td_slice_tests(const struct td_slice_op *ops, size_t n, double min_blocks,
                      struct td_slice_test *out)
{
    struct td_slice slice[TD_SLICE_TESTS_MAX / 2];
    int64_t rows = 0;
    size_t slices, i, tests = 0;
    int m, first = TD_SLICES_FIRST_TAIL;

    for (i = 0; i < n; i++) {
        rows = ops[i].now->rows > rows ? ops[i].now->rows : rows;
        first = ops[i].now->first_tail > first ? ops[i].now->first_tail : first;
    }
    slices = n == 0 ? 0 : list_slices(rows, ops[0].now->cols, first, slice);
    for (m = TD_SLICE_SLOPE; m <= TD_SLICE_MEAN; m++) {
        struct classes k;

        measure_classes(ops, n, m, &k);
        for (i = 0; i < slices; i++)
            tests += test_slice(ops, n, &k, &slice[i], m, min_blocks, &out[tests]);
    }
    return tests;
}

/* ---- coarseness ------------------------------------------------------------------------------ */

/* The squared error that the candidate is compared with: the baseline's, or that of right sums in halves. */
static double coarseness_before(const struct td_slice_op *op, bool *halves)
{
    const double old = (double)op->old->sum[TD_SUM_EE][0],
                 in_halves = op->halves ? (double)op->halves->sum[TD_SUM_EE][0] : 0;

    *halves = *halves || in_halves > old;
    return fmax(old, in_halves);
}

void td_slice_coarse(const struct td_slice_op *ops, size_t n, double limit, double floor,
                     struct td_slice_test *out)
{
    double sum = 0, squares = 0, blocks = 0, all[3] = {0}, mean, t;
    size_t i, end;

    *out = (struct td_slice_test){.slice = {TD_SLICE_ALL, 1, 0}, .measure = TD_SLICE_COARSE, .p = 1};
    for (i = 0; i < n; i = end) {
        double old = 0, now = 0, of = 0, ratio;

        for (end = i; end < n && ops[end].input == ops[i].input; end++) {
            old += coarseness_before(&ops[end], &out->beside_halves);
            now += (double)ops[end].now->sum[TD_SUM_EE][0];
            of += (double)ops[end].now->rows * (double)ops[end].now->cols;
        }
        ratio = log(fmax(now, 1e-12 * of) / fmax(old, fmax(floor * floor, 1e-12) * of)) / 2;
        sum += ratio;
        squares += ratio * ratio;
        blocks++;
        all[0] += old;
        all[1] += now;
        all[2] += of;
    }
    if (blocks < 2)
        return;
    mean = sum / blocks;
    out->blocks = (size_t)blocks;
    out->dof = blocks - 1;
    out->est = exp(mean);
    out->error = sqrt(fmax(0, squares - sum * mean) / (blocks - 1) / blocks);
    out->old_size = sqrt(all[0] / all[2]);
    out->now_size = sqrt(all[1] / all[2]);
    if (mean <= log(limit))
        return;
    t = (mean - log(limit)) / out->error;
    out->p = td_stat_t_p(t, out->dof) / 2;
}
