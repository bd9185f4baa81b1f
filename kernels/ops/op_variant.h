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

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/ops/op.h"

struct td_op_variant {
    const char *kind, *name;
    enum td_cpu cpu;
    /* op : passed by the kind's check. Bytes of work memory that run needs. */
    size_t (*work_bytes)(const struct td_op_call *op);
    /* op->out.data is where C belongs; work : aligned as malloc does. Cannot fail. */
    void (*run)(const struct td_op_call *op, void *work);
};

/* In the order of kernels.def; the last one is NULL. */
const struct td_op_variant *const *td_op_variants(void);
/* name: NULL = the first of that kind that this machine can run. NULL: there is none. */
const struct td_op_variant *td_op_variant_find(const char *kind, const char *name);

/* ---- what the portable variants share ------------------------------------------------------------------------------ */

/* The dot product of k floats, in eight partial sums, without FMA. */
float td_dot_f32(const float *a, const float *b, int64_t k);
/* Store f as element i of dtype dt (F32, F16, BF16), rounded to nearest even. */
void td_store_f32(enum td_dtype dt, void *base, int64_t i, float f);

#define TD_VARIANT_gptq_any(name, cpu, what) extern const struct td_op_variant td_gptq_any_##name;
#define TD_VARIANT_ggml_mul_mat(name, cpu, what) extern const struct td_op_variant td_ggml_mul_mat_##name;
#define TD_VARIANT_gemm(name, cpu, what) extern const struct td_op_variant td_gemm_##name;
#include "kernels/kernels.def"

#endif
