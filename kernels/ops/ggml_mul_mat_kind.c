/* ggml_mul_mat_kind.c - ops of kind "ggml_mul_mat": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/ops/ggml_mul_mat_ref.h"
#include "kernels/ops/op_kind.h"

static int check_ggml_mul_mat(const struct td_op_call *op, struct td_error *err)
{
    struct td_ggml_mul_mat x;

    return td_ggml_mul_mat_of(op, &x, err);
}

static int compute_ggml_mul_mat_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_ggml_mul_mat x;
    const int rc = td_ggml_mul_mat_of(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_ggml_mul_mat_ref(&x, ref, err);
}

const struct td_op_kind td_ggml_mul_mat_kind = {"ggml_mul_mat", check_ggml_mul_mat, compute_ggml_mul_mat_reference};
