/* slices_check.c - can errors have these sums over slices?
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "format/slices.h"

#define ROOM 0x1p-14 /* a sum keeps 16 bits; a product of two, beside a third, loses three times 2^-16 */
#define TINY 1e-36   /* below that a float keeps less */

/* How many elements a slice has. */
static double count_of(const struct td_slices *s, const struct td_slices_layout *l, int at)
{
    const double rows = (double)s->rows, cols = (double)s->cols;

    if (at < l->cols.first)
        return rows * cols;
    if (at < l->rows.first)
        return rows * (double)td_slices_count(s->cols, TD_SLICES_COLS, at - l->cols.first);
    if (at < l->col_tails.first)
        return cols * (double)td_slices_count(s->rows, TD_SLICES_ROWS, at - l->rows.first);
    if (at < l->row_tails.first)
        return rows * (double)(s->cols - td_slices_tail_start(s->cols, s->first_tail << (at - l->col_tails.first)));
    return cols * (double)(s->rows - td_slices_tail_start(s->rows, s->first_tail << (at - l->row_tails.first)));
}

static double sum_of(const struct td_slices *s, enum td_slice_sum of, int at)
{
    return (double)s->sum[of][at];
}

static const char *check_slice(const struct td_slices *s, int at, double n, double score, double u_out)
{
    const double e = sum_of(s, TD_SUM_E, at), ex = sum_of(s, TD_SUM_EX, at), xx = sum_of(s, TD_SUM_XX, at) + TINY,
                 ee = sum_of(s, TD_SUM_EE, at) + TINY, room = 1 + ROOM;

    if (e * e > n * ee * room)
        return "e*e is at most n*ee";
    if (ex * ex > ee * xx * room)
        return "ex*ex is at most ee*xx";
    if (isfinite(score) && ee > (n * score * score + 2 * TINY) * room)
        return "ee is at most n times the score's square";
    if (u_out > 0 && xx > (n / u_out / u_out + 2 * TINY) * room)
        return "xx is at most n over u_out's square";
    return NULL;
}

/* What the absolute values behind a sum add up to at most: a double keeps that much of them. */
static double most_of(const struct td_slices *s, enum td_slice_sum of)
{
    const double xx = sum_of(s, TD_SUM_XX, 0), ee = sum_of(s, TD_SUM_EE, 0);

    switch (of) {
    case TD_SUM_E: return sqrt((double)s->rows * (double)s->cols * ee);
    case TD_SUM_EX: return sqrt(ee * xx);
    case TD_SUM_XX: return xx;
    default: return ee;
    }
}

static bool adds_up(const struct td_slices *s, const struct td_slice_range *r, enum td_slice_sum of)
{
    const double whole = sum_of(s, of, 0);
    double sum = 0, size = fabs(whole);
    int i;

    for (i = r->first; i < r->first + r->n; i++) {
        sum += sum_of(s, of, i);
        size += fabs(sum_of(s, of, i));
    }
    return fabs(sum - whole) <= ROOM * size + 0x1p-36 * most_of(s, of) + TINY;
}

/* A tile holds the smaller ones, and the whole holds all. With one class a column the last column is its class. */
static bool are_nested(const struct td_slices *s, const struct td_slice_range *tails, const struct td_slice_range *classes, int64_t all, int64_t most)
{
    static const enum td_slice_sum SQUARES[] = {TD_SUM_XX, TD_SUM_EE};
    int k, t;

    for (k = 0; k < 2; k++)
        for (t = 0; t < tails->n; t++)
            if (sum_of(s, SQUARES[k], tails->first + t) > sum_of(s, SQUARES[k], t + 1 < tails->n ? tails->first + t + 1 : 0) * (1 + ROOM) + TINY)
                return false;
    if (!tails->n || s->first_tail != 1 || all > most)
        return true;
    for (k = 0; k < TD_SLICE_SUMS; k++) {
        const double last = sum_of(s, (enum td_slice_sum)k, tails->first), one = sum_of(s, (enum td_slice_sum)k, classes->first + (int)all - 1);

        if (fabs(last - one) > ROOM * fabs(one) + TINY)
            return false;
    }
    return true;
}

const char *td_slices_fault(const struct td_slices *s, double score, double u_out)
{
    struct td_slices_layout l;
    const char *fault;
    int i;

    td_slices_layout_of(s->rows, s->cols, s->first_tail, &l);
    for (i = 0; i < l.n; i++)
        if ((fault = check_slice(s, i, count_of(s, &l, i), score, u_out)))
            return fault;
    for (i = 0; i < TD_SLICE_SUMS; i++)
        if (!adds_up(s, &l.cols, (enum td_slice_sum)i) || (l.rows.n && !adds_up(s, &l.rows, (enum td_slice_sum)i)))
            return "columns, and rows, add up to the whole";
    if (!are_nested(s, &l.col_tails, &l.cols, s->cols, TD_SLICES_COLS) || !are_nested(s, &l.row_tails, &l.rows, s->rows, TD_SLICES_ROWS))
        return "a last tile is a part of larger ones";
    return NULL;
}
