/* half_sums.h - what a right kernel gives that keeps its sums in halves.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Such a kernel sums the products of a block of K, rounds that to half, and adds it to what other blocks have left,
 * rounded to half again, in any order: as vLLM's exllama kernel does with atomic additions. How far its results
 * are off follows from the partial sums, so it is computed by adding them so, in one order that is drawn from the
 * inputs. Another order has other errors of the same size. */
#ifndef TD_KERNELS_OPS_HALF_SUMS_H
#define TD_KERNELS_OPS_HALF_SUMS_H

#include "kernels/ops/op.h"

/* Write what is lost, [m, n]: the sum in halves less the exact one, of blocks of `block` products. Equal for equal
 * inputs. TD_EUNSUPPORTED: the op is no product whose parts are known, or not of halves; TD_ENOMEM, TD_EINVAL. */
int td_half_sums_loss(const struct td_op_call *op, int64_t block, double *loss, struct td_error *err);

#endif
