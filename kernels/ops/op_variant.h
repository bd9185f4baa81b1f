/* op_variant.h - a CPU variant that takes an op as it is: for all kinds but the plain gptq_gemm, which has td_gptq.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A variant is a file kernels/<folder>/<folder>_<name>.c, which defines td_<folder>_<name>, and a line
 * TD_VARIANT in kernels.def.
 *
 * What every variant promises:
 *   arithmetic  rounds first what act_rounding names, sums products in fp32, rounds once to the
 *               output's dtype at the end
 *   tolerance   |c - r1| <= u_out * |r1| + u_acc * sqrt(K) * mag, with r1 and mag of the kind's
 *               reference, for finite values
 *   NaN, Inf    in a row of A: NaN or Inf in that row of C where the reference has one; no other row
 *               is touched
 *   repeatable  bit for bit; an element depends alone on its row of A and on its row of W (gptq_any,
 *               whose W is [k, n]: its column of W)
 *   memory      reads and writes what shapes and strides describe, and nothing beyond */
#ifndef TD_KERNELS_OPS_OP_VARIANT_H
#define TD_KERNELS_OPS_OP_VARIANT_H

#include "kernels/cpu_isa.h"
#include "kernels/ops/op.h"

struct td_op_variant {
    const char *kind, *name;
    enum td_cpu cpu;
    /* Bytes of work memory that run needs. op : has passed its kind's check. */
    size_t (*work_bytes)(const struct td_op_call *op);
    /* Compute C into op->out.data. work : aligned as by malloc. Cannot fail. */
    void (*run)(const struct td_op_call *op, void *work);
};

#endif
