/* gptq_any_ref.h - the right answer of every form of gptq_gemm, and the numbers that such a kernel multiplies.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_GPTQ_ANY_REF_H
#define TD_KERNELS_OPS_GPTQ_ANY_REF_H

#include "kernels/ops/gptq_gemm_op.h"
#include "kernels/ops/k_blocks.h"

/* Row i of A, [k], as stored and as the op's rounding leaves it. `rounded` may be `stored`: then
 * nothing is rounded. A row that holds NaN or Inf becomes NaN throughout when it is rounded. */
void td_gptq_op_row(const struct td_gptq_op *x, int64_t i, double *stored, double *rounded);
/* A row's scale where it is rounded to 8 bits, and such a rounding of n of its numbers. */
struct td_gptq_row_scale { float scale, inverse; bool finite; };
struct td_gptq_row_scale td_gptq_op_row_scale(const struct td_gptq_op *x, int64_t i);
void td_gptq_op_round_row(const struct td_gptq_row_scale *s, const double *stored, int64_t n, double *rounded);
/* One weight as the kernel multiplies it; zero: with zero_offset. */
double td_gptq_op_round_weight(enum td_gptq_rounding how, int q, int zero, double scale);
/* Columns n0 .. n0 + cols (at most 16) of the dequantised W, each [k], one after the other:
 * (q - zero) * scale, and the same as the op's rounding leaves it. `rounded` may be `exact`: then
 * nothing is rounded. */
void td_gptq_op_columns(const struct td_gptq_op *x, int64_t n0, int64_t cols, double *exact,
                        double *rounded);
/* Fill *ref, which the caller releases, for any op (gptq_product_ref.c, by blocks). TD_ENOMEM, TD_ELIMIT. */
int td_gptq_op_ref(const struct td_gptq_op *x, struct td_op_ref *ref, struct td_error *err);
/* Its two ends, for who computes the sums r0, r1 and mag elsewhere: memory for them; then the bias. */
int td_gptq_op_ref_new(const struct td_gptq_op *x, struct td_op_ref *ref, struct td_error *err);
void td_gptq_op_ref_finish(const struct td_gptq_op *x, struct td_op_ref *ref);

/* Tell the sums of each block along K (block_sums.h). */
int td_gptq_op_block_sums(const struct td_gptq_op *x, const struct td_k_blocks *b, td_block_sums_fn *tell, void *ctx, struct td_error *err);

#endif
