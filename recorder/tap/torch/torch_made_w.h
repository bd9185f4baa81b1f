/* torch_made_w.h - an operator that makes floats of a quantised W, by which torch has a library multiply next
 * (awq_dequantize): the product is an op with the quantised weights.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_MADE_W_H
#define TD_RECORDER_TAP_TORCH_TORCH_MADE_W_H

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_rows.h"

#pragma GCC visibility push(hidden)

struct tap_torch_made_w {
    struct tap_gpu_launch launch;     /* where it is made */
    struct td_gpu_work work;          /* of the operator's own op */
};

/* Before the call of an operator whose row makes_w: read it. False: it makes none that is known.
 *   real  : the operator's function
 *   stack : its arguments, m->schema->n_args of them
 * Allocates nothing. */
bool tap_torch_made_w_read(struct tap_torch_made_w *w, const void *real,
                           const struct tap_torch_meaning *m, const td_torch_value *stack);
/* After it: tell the launch gate where W lies now. */
void tap_torch_made_w_tell(const struct tap_torch_made_w *w, const struct tap_torch_meaning *m,
                           td_torch_value result);
/* What a product with W is read of: its weights, and W behind them. False: the result is no such W. */
bool tap_torch_made_w_work(const struct tap_torch_made_w *w, const struct tap_torch_meaning *m,
                           td_torch_value result, struct td_gpu_work *work);

#pragma GCC visibility pop
#endif
