/* rms_norm_kind.c - ops of kind "rms_norm".
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_kind.h"
#include "kernels/ops/rms_norm_op.h"

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct td_rms_norm x;

    return td_rms_norm_of(op, false, &x, err);
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    return td_rms_norm_reference(op, false, ref, err);
}

const struct td_op_kind td_rms_norm_kind = {"rms_norm", check, compute_reference};
