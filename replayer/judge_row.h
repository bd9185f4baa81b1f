/* judge_row.h - judge a row of an output, all of whose numbers are finite: what most rows are, in a tenth of the time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_JUDGE_ROW_H
#define TD_REPLAYER_JUDGE_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "model/dtype.h"

struct td_judge_row {
    enum td_dtype dtype;                   /* F16, BF16 or F32 */
    int64_t n;
    const void *image;                     /* [n] the row as it is stored */
    const double *r0, *r1, *mag, *slack;   /* [n] of the reference; slack may be NULL */
    double u_out, u_sum, tiny;             /* denominator: u_out * |r1| + u_sum * mag + tiny + slack */
    double *c, *score;                     /* [n] filled: the output; |c - r1| / denominator */
    double *diff, *denom;                  /* [n] filled: c - r1; the denominator */
};

/* The row's sums, added in the order of its elements to what is there already. */
struct td_judge_row_sums {
    double score, max_abs;                 /* largest so far */
    double d2, r2, d02, r02;               /* of c - r1, r1, c - r0, r0, squared */
    double row;                            /* of score */
    int64_t zero, ref_nonzero;
};

/* Fill c, score, diff, denom. False: an output, a reference or a score is not finite, or the dtype is another;
 * they hold nothing then. */
bool td_judge_row_score(const struct td_judge_row *r);
void td_judge_row_add(const struct td_judge_row *r, struct td_judge_row_sums *s);
/* sum[j] += score[j]^2; and of each `wide` neighbours into one sum. */
void td_judge_row_add_columns(const struct td_judge_row *r, double *sum);
void td_judge_row_add_tiles(const struct td_judge_row *r, int64_t wide, double *sum);

#endif
