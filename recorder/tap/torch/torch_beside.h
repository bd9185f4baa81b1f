/* torch_beside.h - a call of an operator that stands beside products (norms, activations, …), read as
 * the work of one launch. Only with --all-ops.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_BESIDE_H
#define TD_RECORDER_TAP_TORCH_TORCH_BESIDE_H

#include "recorder/tap/torch/torch_product.h"

#pragma GCC visibility push(hidden)

/* As tap_torch_product_read(), of an operator that COMPUTES (torch_rows.h). Its outputs are arguments,
 * so that their addresses are known, or one is its result: that has TAP_GPU_LATER. A tensor of more than two dimensions is read as a matrix: its
 * first dimension, by all others, which must lie without gaps. Allocates nothing. */
enum tap_torch_product tap_torch_beside_read(const struct tap_torch_meaning *m,
                                             const td_torch_value *stack, struct td_gpu_work *w,
                                             td_torch_tensor *a);

/* The address of the output of an operator that returns it; 0: it is not the output that was read. */
uint64_t tap_torch_beside_result(const struct td_gpu_work *w, td_torch_value result);
/* The same of an operator whose row has a cache_type (torch_cache.c): its outputs are the rows that it writes into
 * caches. */
enum tap_torch_product tap_torch_cache_read(const struct tap_torch_meaning *m,
                                            const td_torch_value *stack, struct td_gpu_work *w,
                                            td_torch_tensor *a);
/* Add a tensor to the operands, as a matrix (above). False: it has no such form, or is too large. */
bool tap_torch_beside_add(struct td_gpu_work *w, const struct tap_torch_role *role,
                          const struct tap_torch_tensor *t);

#pragma GCC visibility pop
#endif
