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

/* How a kernel keeps its sums in halves. */
struct td_half_sums {
    int block;    /* products of a block; 0: sums are kept in float32. TD_HALF_SUMS_ALL or more than K: one block has all */
    int step;     /* products of a block that are summed in float32 and then added to the block's sum in halves, in the order
                     of K; 0: the block is summed in float32 */
    bool eights;  /* eight products at a time are summed in halves, as two chains of four (half2), before they are added to others */
};
#define TD_HALF_SUMS_ALL 0xffff

/* vLLM 0.26's q_gemm.cu, for few rows: gemm_half_q_half_gptq_4bit_kernel (dot22_8_f) and _8bit_kernel (dot22_8_h). */
#define TD_HALF_SUMS_EXLLAMA(bits) ((bits) == 8 ? (struct td_half_sums){128, 8, false} : (struct td_half_sums){128, 0, true})

/* In one number, as a build's process tells it: block, step << 16, eights << 24. A mere count of products is a block. */
int td_half_sums_pack(struct td_half_sums h);
struct td_half_sums td_half_sums_unpack(int packed);
/* The fewest products that are added before a sum becomes a half, but for eights, which lose little beside the rest; 0: none. */
int td_half_sums_least(struct td_half_sums h);

/* Write what is lost, [m, n]: the sum in halves less the exact one. Equal for equal inputs. TD_EUNSUPPORTED: the op is no
 * product whose parts are known, or not of halves; TD_ENOMEM, TD_EINVAL. */
int td_half_sums_loss(const struct td_op_call *op, struct td_half_sums how, double *loss, struct td_error *err);

#endif
