/* block_sums.h - the sums of a product's parts along K: of each block of so many rows of W alone, in double.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of them together are R0 without the bias. They show which part of K an error comes from (k_slices.h), and what
 * is lost when they are added in halves (half_sums.h). */
#ifndef TD_KERNELS_OPS_BLOCK_SUMS_H
#define TD_KERNELS_OPS_BLOCK_SUMS_H

#include "kernels/ops/k_blocks.h"
#include "kernels/ops/op.h"

/* Tell the sums of each block of an op. TD_EUNSUPPORTED: its kind has none; TD_ENOMEM, TD_EINVAL. */
int td_block_sums(const struct td_op_call *op, const struct td_k_blocks *b, td_block_sums_fn *tell, void *ctx, struct td_error *err);

#endif
