/* gptq_gemm_op.h - from a recorded op of kind "gptq_gemm" to the arguments of td_gptq_gemm.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Attributes: m n k bits group_size (> 0), zero_offset (1), act_order (0). Tensors: a [m, k] F16, rows lda apart;
 * qweight [k*bits/32, n] I32 or U32; qzeros [k/group_size, n*bits/32]; scales [k/group_size, n] F16; g_idx [k] I32 with
 * act-order, or where a server passes one; out c [m, n] F16, rows ldc apart. All but a and c are dense. */
#ifndef TD_KERNELS_GPTQ_GEMM_OP_H
#define TD_KERNELS_GPTQ_GEMM_OP_H

#include "kernels/op.h"
#include "kernels/td_gptq.h"

/* Check everything that td_gptq.h asks for, range of g_idx and sizes of memory included, and fill *args, which borrows from op.
 * op->out.data may be NULL (args->c is then NULL). 0 or TD_EINVAL with a sentence. */
int td_gptq_gemm_args_of(const struct td_op_call *op, struct td_gptq_gemm_args *args, struct td_error *err);

/* "a size is negative ..." for an enum td_kernel_status. */
const char *td_kernel_status_text(int status);

#endif
