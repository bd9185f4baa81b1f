/* moe_scaled_mm_op.h - from a recorded op of kind "moe_scaled_mm", a product of 8-bit floats with the
 * experts of a mixture, to plain numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rows of A lie sorted by expert. Of expert e, from row expert_offsets[e] on, as many rows as
 * problem_sizes says:  C = a_scales * w_scales[e] * (A * W[e]^T)
 *
 * Attributes: m n k experts. Tensors, e = experts:
 *   a              : [m, k] F8_E4M3 or F8_E5M2, rows lda apart
 *   w              : [e, n, k], the same types
 *   a_scales       : F32, [1] or [m]
 *   w_scales       : F32, [e] or [e, n]
 *   expert_offsets : I64 [e]
 *   problem_sizes  : I32 [e, 3]: rows, n, k of each expert; or n, rows, k, where the kernel computes
 *                    the transpose
 *   c              : [m, n] F16, BF16 or F32, rows ldc apart
 * All but a and c are dense. A row that no expert has is not computed: what C holds there is what
 * was there before, and it is not judged. Roundings as of scaled_mm.
 *
 * Source of the meaning: vLLM 0.26, csrc/libtorch_stable/quantization/w8a8/cutlass/moe/
 * grouped_mm_c3x.cuh, get_group_starts.cuh and grouped_mm_c3x_sm90.cu. */
#ifndef TD_KERNELS_OPS_MOE_SCALED_MM_OP_H
#define TD_KERNELS_OPS_MOE_SCALED_MM_OP_H

#include "kernels/ops/scaled_mm_op.h"

#define TD_MOE_SCALED_MAX_EXPERTS 4096

struct td_moe_scaled_mm {
    struct td_scaled_mm all;           /* m: all rows; w and scales: of expert 0 */
    int64_t experts;
    const int64_t *offsets;
    const int32_t *sizes;
};

/* Check everything: sizes, memory, that each expert's rows lie in A and no row has two experts. Fill
 * *x, which borrows from op. 0; TD_EINVAL; TD_EUNSUPPORTED: this version does not know an input or a
 * rounding; TD_ENOMEM. */
int td_moe_scaled_mm_of(const struct td_op_call *op, struct td_moe_scaled_mm *x, struct td_error *err);
/* The first row of expert e, and how many it has. */
int64_t td_moe_scaled_mm_first(const struct td_moe_scaled_mm *x, int64_t e);
int64_t td_moe_scaled_mm_rows(const struct td_moe_scaled_mm *x, int64_t e);
/* The product of expert e. */
struct td_scaled_mm td_moe_scaled_mm_expert(const struct td_moe_scaled_mm *x, int64_t e);

#endif
