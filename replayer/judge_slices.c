/* judge_slices.c - add up an output's errors over slices of its rows and columns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/judge_slices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int td_judge_slices_init(struct td_judge_slices *s, int64_t rows, int64_t cols, struct td_error *err)
{
    memset(s, 0, sizeof *s);
    s->rows = rows;
    s->cols = cols;
    td_slices_layout_of(rows, cols, TD_SLICES_FIRST_TAIL, &s->layout);
    s->e = malloc(2 * (size_t)cols * sizeof *s->e + 1);
    if (!s->e)
        return td_fail(err, TD_ENOMEM, "out of memory for a row of %lld errors", (long long)cols);
    s->x = s->e + cols;
    return TD_OK;
}

void td_judge_slices_release(struct td_judge_slices *s)
{
    free(s->e);
    s->e = s->x = NULL;
}

/* Sums of one row, by column modulo TD_SLICES_COLS. */
struct row_sums { double of[TD_SLICE_SUMS][TD_SLICES_COLS]; };

/* n neighbours, from a column that is 0 modulo TD_SLICES_COLS. */
static inline void add_block(struct row_sums *restrict r, const double *restrict e, const double *restrict x, int n)
{
    int c;

    for (c = 0; c < n; c++) {
        r->of[TD_SUM_E][c] += e[c];
        r->of[TD_SUM_EX][c] += e[c] * x[c];
        r->of[TD_SUM_XX][c] += x[c] * x[c];
        r->of[TD_SUM_EE][c] += e[c] * e[c];
    }
}

static void add_to(struct td_judge_slices *s, int slice, const double of[TD_SLICE_SUMS])
{
    int k;

    for (k = 0; k < TD_SLICE_SUMS; k++)
        s->sum[k][slice] += of[k];
}

/* The last tiles of columns: each holds those of smaller tiles. */
static void add_tails(struct td_judge_slices *s)
{
    double of[TD_SLICE_SUMS] = {0};
    int64_t j = s->cols;
    int t;

    for (t = 0; t < s->layout.col_tails.n; t++) {
        const int64_t start = td_slices_tail_start(s->cols, TD_SLICES_FIRST_TAIL << t);

        while (j > start) {
            j--;
            of[TD_SUM_E] += s->e[j];
            of[TD_SUM_EX] += s->e[j] * s->x[j];
            of[TD_SUM_XX] += s->x[j] * s->x[j];
            of[TD_SUM_EE] += s->e[j] * s->e[j];
        }
        add_to(s, s->layout.col_tails.first + t, of);
    }
}

static void divide(double *restrict e, double *restrict x, const double *restrict r1, int64_t n)
{
    int64_t j;

    for (j = 0; j < n; j++) {
        const double weight = 1 / x[j];

        e[j] *= weight;
        x[j] = r1[j] * weight;
    }
}

void td_judge_slices_end_row(struct td_judge_slices *s, int64_t i, const double *r1)
{
    struct row_sums r = {0};
    double all[TD_SLICE_SUMS] = {0};
    int64_t j;
    int k, c, t;

    divide(s->e, s->x, r1, s->cols);
    for (j = 0; j + TD_SLICES_COLS <= s->cols; j += TD_SLICES_COLS)
        add_block(&r, s->e + j, s->x + j, TD_SLICES_COLS);
    add_block(&r, s->e + j, s->x + j, (int)(s->cols - j));
    for (k = 0; k < TD_SLICE_SUMS; k++)
        for (c = 0; c < s->layout.cols.n; c++) {
            all[k] += r.of[k][c];
            s->sum[k][s->layout.cols.first + c] += r.of[k][c];
        }
    add_to(s, 0, all);
    if (s->layout.rows.n)
        add_to(s, s->layout.rows.first + (int)(i % TD_SLICES_ROWS), all);
    add_tails(s);
    for (t = 0; t < s->layout.row_tails.n; t++)
        if (i >= td_slices_tail_start(s->rows, TD_SLICES_FIRST_TAIL << t))
            add_to(s, s->layout.row_tails.first + t, all);
}

void td_judge_slices_take(const struct td_judge_slices *s, struct td_slices *out)
{
    int k, i;

    memset(out, 0, sizeof *out);
    if (s->unfit || !s->rows || !s->cols)
        return;
    for (k = 0; k < TD_SLICE_SUMS; k++)
        for (i = 0; i < s->layout.n; i++) {
            if (!(fabs(s->sum[k][i]) < 1e38)) /* of NaN or Inf, or more than a float holds */
                return;
            out->sum[k][i] = (float)s->sum[k][i];
        }
    out->rows = s->rows;
    out->cols = s->cols;
    out->first_tail = TD_SLICES_FIRST_TAIL;
}
