/* ggml_mul_mat_ref.h - the right answer of a ggml_mul_mat, in double.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_GGML_MUL_MAT_REF_H
#define TD_KERNELS_OPS_GGML_MUL_MAT_REF_H

#include "kernels/ops/ggml_mul_mat_op.h"

/* Fill *ref, which the caller releases. Its rows are those of all batches of C, one after the other.
 * Weights with a minimum are taken apart as ggml's kernels do, w = scaled + min: R1 = scaled . a +
 * min . sum, where a and sum are what the rounding of the activations gives (the sum of q8_1 is a half
 * of its own), and mag adds up both parts, because a kernel that computes them apart cannot be closer
 * when they cancel. TD_ENOMEM, TD_ELIMIT. */
int td_ggml_mul_mat_ref(const struct td_ggml_mul_mat *x, struct td_op_ref *ref, struct td_error *err);

#endif
