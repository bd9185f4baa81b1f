/* torch_product_kinds.h - what the kinds of op differ in, when a call that multiplies is read: one
 * function for each kind, or for each layout of its weights, in a file torch_product_<kind>.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A function is called when all tensors of the row are operands of *w, but C; m, k, and n if the row
 * has n_of, are set. It fills in the rest of what the kind has: attributes, the rounding, n. False:
 * the types, sizes or values of this call are none that the kind has. Allocates nothing. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_PRODUCT_KINDS_H
#define TD_RECORDER_TAP_TORCH_TORCH_PRODUCT_KINDS_H

#include "kernels/adapters/adapter.h"
#include "recorder/tap/torch/torch_arguments.h"
#include "recorder/tap/torch/torch_rows.h"

#pragma GCC visibility push(hidden)

typedef bool tap_torch_product_kind(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                    struct td_gpu_work *w);

tap_torch_product_kind tap_torch_product_allspark, tap_torch_product_gptq_gemm, tap_torch_product_moe_gemm,
    tap_torch_product_moe_scaled_mm, tap_torch_product_moe_wna16, tap_torch_product_scaled_mm;
/* C's rows, and the attributes that say where they come from. False: numbers that cannot be. */
bool tap_torch_add_routing(struct td_gpu_work *w, int64_t experts, int64_t top_k, int64_t block_size);
/* Does the calling thread's device cut sums of 8-bit floats (sum-e8m13)? */
bool tap_torch_cuts_sums(void);
/* Of any kind, as a row of the user's describes it. */
tap_torch_product_kind tap_torch_product_own;

#pragma GCC visibility pop
#endif
