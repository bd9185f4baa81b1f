/* op_variant.h - CPU variants that take an op as it is: all kinds but the plain gptq_gemm, which has td_gptq.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What every variant promises:
 *   arithmetic  products summed in fp32, what act_rounding says rounded first, one rounding to the output's dtype at the end
 *   tolerance   |c - r1| <= u_out * |r1| + u_acc * sqrt(K) * mag, r1 and mag as the kind's reference has them, for finite values
 *   NaN, Inf    in a row of A: NaN or Inf in that row of C where the reference has one, no other row is touched
 *   repeatable  bit for bit; an element depends on its row of A and its row of W alone
 *   memory      reads and writes what shapes and strides say and nothing beyond */
#ifndef TD_KERNELS_OPS_OP_VARIANT_H
#define TD_KERNELS_OPS_OP_VARIANT_H

#include "kernels/cpu_isa.h"
#include "kernels/ops/op.h"

struct td_op_variant {
    const char *kind, *name;
    enum td_cpu cpu;
    /* op : passed by the kind's check. Bytes of work memory that run needs. */
    size_t (*work_bytes)(const struct td_op_call *op);
    /* op->out.data is where C belongs; work : aligned as malloc does. Cannot fail. */
    void (*run)(const struct td_op_call *op, void *work);
};

#endif
