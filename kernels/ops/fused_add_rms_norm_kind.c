/* fused_add_rms_norm_kind.c - ops of kind "fused_add_rms_norm" (rms_norm_op.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_kind.h"
#include "kernels/ops/rms_norm_op.h"

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct td_rms_norm x;

    return td_rms_norm_of(op, true, &x, err);
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    return td_rms_norm_reference(op, true, ref, err);
}

const struct td_op_kind td_fused_add_rms_norm_kind = {"fused_add_rms_norm", check, compute_reference};
