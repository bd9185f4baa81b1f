/* torch_product.h - a call of an operator that multiplies, read as the work of one launch.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_PRODUCT_H
#define TD_RECORDER_TAP_TORCH_TORCH_PRODUCT_H

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_rows.h"

#pragma GCC visibility push(hidden)

enum tap_torch_product {
    TAP_TORCH_READ,
    TAP_TORCH_EMPTY,                  /* A has no rows: nothing is computed */
    TAP_TORCH_UNKNOWN                 /* not what the row describes: tensors elsewhere than on a GPU,
                                         an argument that changes what is computed, a type or a size
                                         that no op has */
};

/* Read the call of an operator that multiplies. The output's address is TAP_GPU_LATER if C is
 * returned.
 *   stack : the arguments, m->schema->n_args of them
 *   *a    : the tensor A, if it is READ
 * Allocates nothing. */
enum tap_torch_product tap_torch_product_read(const struct tap_torch_meaning *m,
                                              const td_torch_value *stack, struct td_gpu_work *w,
                                              td_torch_tensor *a);
/* The address of a C that was returned; 0: it is not the output that was read. */
uint64_t tap_torch_product_result(const struct td_gpu_work *w, td_torch_value result);

#pragma GCC visibility pop
#endif
