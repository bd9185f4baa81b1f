/* refbatch.h - references of several ops with the same weights in one go, so that the weights are dequantised once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row of a product depends on its row of A alone, so the A of several ops may stand below each other. Kinds and ops
 * that do not fit this pattern (input "a" [m, k], attribute m) are computed one by one. */
#ifndef TD_REPLAYER_REFBATCH_H
#define TD_REPLAYER_REFBATCH_H

#include "kernels/ops/op_kind.h"

#define TD_REFBATCH_MAX_ROWS 32  /* more rows no longer stay in the cache while the weights pass */

/* True when op `next` may stand below `first`: same kind and attributes but m, and the caller knows that the weights are equal. */
bool td_refbatch_fits(const struct td_op_call *first, const struct td_op_call *next);

/* The references of n ops, each fit to stand below the first, with R1 by the activation rounding `rounding`, into refs : [n]. More than one (*joined): `whole` owns the
 * memory of all and is what td_op_ref_release() gets; one: refs[0] is. */
int td_refbatch_compute(const struct td_op_kind *kind, const struct td_op_call *const *ops, int n, const char *rounding,
                        struct td_op_ref *refs, struct td_op_ref *whole, bool *joined, struct td_error *err);

#endif
