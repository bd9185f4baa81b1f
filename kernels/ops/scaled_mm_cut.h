/* scaled_mm_cut.h - the sums of a product of 8-bit floats as Hopper's tensor cores keep them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Without `block` one sum goes over all of k (CUTLASS's FastAccum, which vLLM 0.26 takes on sm_90:
 * scaled_mm_sm90_fp8_dispatch.cuh, moe/grouped_mm_c3x_sm90.cu); with it each block has a sum of its
 * own, and these are scaled and added in float32 (BlockScaledAccum,
 * scaled_mm_blockwise_sm90_fp8_dispatch.cuh). */
#ifndef TD_KERNELS_OPS_SCALED_MM_CUT_H
#define TD_KERNELS_OPS_SCALED_MM_CUT_H

#include "kernels/ops/scaled_mm_op.h"

/* Without the bias: what the products give in the order of k, and what any order may lose, [m, n]
 * each (`ordered` and `slack` of struct td_op_ref). Where r0 [m, n], which is known, is not finite,
 * ordered is r0. TD_ENOMEM. */
int td_scaled_mm_cut(const struct td_scaled_mm *x, const double *r0, double *ordered, double *slack,
                     struct td_error *err);

#endif
