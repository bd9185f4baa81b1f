/* gemm_kind.c - ops of kind "gemm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/ops/gemm_ref.h"
#include "kernels/ops/op_kind.h"

static int check_gemm(const struct td_op_call *op, struct td_error *err)
{
    struct td_gemm x;

    return td_gemm_of(op, &x, err);
}

static int compute_gemm_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gemm x;
    const int rc = td_gemm_of(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_gemm_ref(&x, ref, err);
}

const struct td_op_kind td_gemm_kind = {"gemm", check_gemm, compute_gemm_reference};
