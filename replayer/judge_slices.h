/* judge_slices.h - add up an output's errors over slices of its rows and columns (format/slices.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The judge puts the elements of a row, then ends the row; the sums are those of all rows. */
#ifndef TD_REPLAYER_JUDGE_SLICES_H
#define TD_REPLAYER_JUDGE_SLICES_H

#include "common/error.h"
#include "format/slices.h"

struct td_judge_slices {
    struct td_slices_layout layout;
    int64_t rows, cols;
    double *e, *x;               /* [cols] of the row that is being judged, owned: what is put, then e and x */
    double sum[TD_SLICE_SUMS][TD_SLICES_MAX];
    bool unfit;                  /* a row is not judged */
};

int td_judge_slices_init(struct td_judge_slices *s, int64_t rows, int64_t cols, struct td_error *err);
void td_judge_slices_release(struct td_judge_slices *s);

/* One element of the row: c - r1, and the score's denominator. */
static inline void td_judge_slices_put(struct td_judge_slices *s, int64_t j, double diff, double denom)
{
    s->e[j] = diff;
    s->x[j] = denom;
}
/* All elements of row i are put. r1: [cols] the row of the reference */
void td_judge_slices_end_row(struct td_judge_slices *s, int64_t i, const double *r1);
/* The sums; out->rows is 0 when a row is missing, or an element was not finite: nothing can be said
 * of slices then. */
void td_judge_slices_take(const struct td_judge_slices *s, struct td_slices *out);

#endif
