/* gptq_gemm_kind.c - ops of kind "gptq_gemm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"

static int check_gptq_gemm(const struct td_op_call *op, struct td_error *err)
{
    struct td_gptq_op x;

    return td_gptq_op_of(op, &x, err);
}

static int compute_gptq_gemm_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gptq_op x;
    const int rc = td_gptq_op_of(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_gptq_op_ref(&x, ref, err);
}

const struct td_op_kind td_gptq_gemm_kind = {"gptq_gemm", check_gptq_gemm, compute_gptq_gemm_reference};
