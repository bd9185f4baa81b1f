/* judge.h - how far an output lies from the reference, element by element, and where the worst of it is.
 * SPDX-License-Identifier: Apache-2.0
 *
 * score of an element = |c - r1| / (u_out*|r1| + u_acc*sqrt(K)*mag + slack + tiny)
 *   u_out : unit roundoff of the output's dtype      u_acc : unit roundoff of a float32 accumulator
 *   mag   : |A|*|W|, so the bound holds for every order of summation
 *   slack : of the reference: what a declared rounding on the way explains
 *   tiny  : half the smallest subnormal of the output's dtype (a result that underflows is no error)
 * An honest kernel stays near 1. Numbers that are not finite:
 *   r1 finite,     c NaN                    -> score Infinity
 *   r1 finite,     c Inf                    -> 0 if the right result overflows the dtype to that Inf, else Infinity
 *   r1 NaN or Inf, c NaN or Inf             -> 0 (the inputs held NaN or Inf); counted in nan, inf
 *   r1 NaN or Inf, c finite                 -> score Infinity (the damage was hidden) */
#ifndef TD_REPLAYER_JUDGE_H
#define TD_REPLAYER_JUDGE_H

#include <cjson/cJSON.h>

#include "format/slices.h"
#include "kernels/ops/op.h"

#define TD_JUDGE_TILE_ROWS 8
#define TD_JUDGE_TILE_COLS 32

struct td_judge_limits { double u_out, u_acc, tiny, floor; };

/* Find the limits of a kind and output dtype. TD_EUNSUPPORTED: there are none for this dtype. */
int td_judge_limits_find(const char *kind, enum td_dtype out, struct td_judge_limits *lim, struct td_error *err);

struct td_judge_spot { int64_t i, j; double rms; }; /* a row (i), a column (j), or a tile's first row and column */

struct td_judge_result {
    double score, rel_l2, max_abs;      /* Infinity where a NaN stands against a finite reference, and the like */
    double r0_rel_l2;                   /* as rel_l2, but to R0: what the format rounds away counts too */
    struct td_judge_spot worst_row, worst_col, worst_tile;
    int64_t nan, inf, zero, ref_nonzero, ref_nonfinite, total;
    int repeats;
    int worst_run;                      /* the run whose score that is, from 0: of td_judge_runs(), else 0 */
    int64_t unstable;                   /* elements that are not bitwise equal in all repeats */
    int odd_runs;                       /* repeats whose output is not the most frequent one */
    bool in_order;                      /* held against ref->ordered (judge_order.h) */
    double spread;                      /* worst (max - min over repeats) / denominator */
    struct td_slices slices;            /* rows 0: none, since an element is not finite, a row is not judged, or
                                           the sums are declared to lose more than rounding does */
};

/* Must every element of an output lie inside its image, and has it those of the reference? (Strides
 * come from a file.) TD_EINVAL. */
int td_judge_check_image(const struct td_op_ref *ref, const struct td_tensor *out, struct td_error *err);

/* Judge one output, the first of n_images, and the spread over all of them.
 *   ref    : borrowed; rows x cols elements
 *   out    : description of the output; shape [rows, cols] (or [cols]), any strides, data not used
 *   images : [n_images] memory images of out->size_bytes each */
int td_judge_output(const struct td_op_ref *ref, const struct td_tensor *out, const void *const *images, int n_images,
                    const struct td_judge_limits *lim, struct td_judge_result *res, struct td_error *err);

/* The score of one element of an output. */
double td_judge_score(const struct td_op_ref *ref, const struct td_tensor *out, const void *image,
                      const struct td_judge_limits *lim, int64_t i, int64_t j);

/* Elements of two images that are bitwise equal. Rows without a reference do not count here, nor
 * above. ref : NULL: all rows count. */
int64_t td_judge_equal(const struct td_op_ref *ref, const struct td_tensor *out, const void *a, const void *b);
/* Relative L2 distance of r1 from r0, over elements finite in both. */
double td_judge_format_cost(const struct td_op_ref *ref);

/* Elements of an output: position of element (i, j), which need not be dense. */
int64_t td_judge_offset(const struct td_tensor *out, int64_t i, int64_t j); /* in elements */
int64_t td_judge_rows(const struct td_tensor *out);
int64_t td_judge_cols(const struct td_tensor *out);

/* JSON as docs/format.md "judge" has it; NaN and Infinity as strings. The caller owns the tree; NULL: out of memory. */
cJSON *td_judge_result_json(const struct td_judge_result *res, const char *crash);
cJSON *td_judge_limits_json(const struct td_judge_limits *lim);
void td_judge_add_num(cJSON *obj, const char *key, double v); /* finite: a number; else its name */

#endif
