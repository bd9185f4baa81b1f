/* torch_repack.h - operators that repack a weight while a model is loaded: a sample of the weight is
 * taken before, and kept under the address of the result.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the server's thread that loads the model, whether the tap is armed or asleep. It allocates, and
 * copies some hundred words from the device. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_REPACK_H
#define TD_RECORDER_TAP_TORCH_TORCH_REPACK_H

#include "common/desc/weight_fingerprint.h"
#include "recorder/tap/torch/torch_operators.h"

#pragma GCC visibility push(hidden)

/* Before the operator: a sample of the weight, which malloc() made; NULL: none can be taken. */
struct td_weight_fingerprint *tap_torch_repack_sample(const struct tap_torch_operator *o,
                                                      const struct tap_torch_meaning *m,
                                                      const td_torch_value *stack);
/* After it. Takes p, which may be NULL: nothing is known of the weight at that address. */
void tap_torch_repack_keep(struct td_weight_fingerprint *p, td_torch_value result);

#pragma GCC visibility pop
#endif
