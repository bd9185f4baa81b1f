/* gemm_ref.h - the right answer of a gemm.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_GEMM_REF_H
#define TD_KERNELS_OPS_GEMM_REF_H

#include "kernels/ops/gemm_op.h"
#include "kernels/ops/k_blocks.h"

/* Fill *ref, which the caller releases, by blocks (product_ref.h). TD_ENOMEM, TD_ELIMIT. */
int td_gemm_ref(const struct td_gemm *x, struct td_op_ref *ref, struct td_error *err);
/* Its two ends, for who computes the sums r0 and mag elsewhere: memory for them; then the bias. */
int td_gemm_ref_new(const struct td_gemm *x, struct td_op_ref *ref, struct td_error *err);
void td_gemm_ref_finish(const struct td_gemm *x, struct td_op_ref *ref);

/* Tell the sums of each block along K (block_sums.h). */
int td_gemm_block_sums(const struct td_gemm *x, const struct td_k_blocks *b, td_block_sums_fn *tell, void *ctx, struct td_error *err);

#endif
