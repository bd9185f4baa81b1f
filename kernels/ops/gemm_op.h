/* gemm_op.h - from a recorded op of kind "gemm" to plain numbers: C = A * W^T + bias, of plain floats.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Attributes: m n k, trans_b 1 (W as a checkpoint has it). Tensors, each F16, BF16 or F32: a [m, k],
 * w [n, k], optional bias [n], c [m, n]; rows of a, w and c lie lda, ldw, ldc elements apart. NaN or
 * Inf in a row of A gives NaN or Inf in that row of C alone. Roundings (act_rounding): none;
 * bias-after (op_rounding.h). */
#ifndef TD_KERNELS_OPS_GEMM_OP_H
#define TD_KERNELS_OPS_GEMM_OP_H

#include "kernels/ops/op.h"

struct td_gemm {
    int64_t m, n, k, lda, ldw, ldc;
    enum td_dtype a_dtype, w_dtype, c_dtype;
    const unsigned char *a, *w;
    unsigned char *c;                /* NULL: no memory for C yet */
    const struct td_tensor *bias;    /* NULL: none */
    bool bias_after;                 /* there is one, and it is added to the rounded product */
};

/* Check everything and fill *x, which borrows from op. TD_EINVAL; TD_EUNSUPPORTED: this version does not
 * know a transpose, input or rounding. */
int td_gemm_of(const struct td_op_call *op, struct td_gemm *x, struct td_error *err);

#endif
