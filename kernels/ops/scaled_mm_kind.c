/* scaled_mm_kind.c - ops of kind "scaled_mm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/scaled_mm_cut.h"
#include "kernels/ops/scaled_mm_ref.h"

static int check_scaled_mm(const struct td_op_call *op, struct td_error *err)
{
    struct td_scaled_mm x;

    return td_scaled_mm_of(op, &x, err);
}

static int compute_scaled_mm_reference(const struct td_op_call *op, struct td_op_ref *ref,
                                       struct td_error *err)
{
    struct td_scaled_mm x;
    int rc;

    memset(ref, 0, sizeof *ref);
    if ((rc = td_scaled_mm_of(op, &x, err)) || (rc = td_op_ref_new(ref, x.m, x.n, x.k, false, err)))
        return rc;
    rc = td_scaled_mm_ref(&x, ref->r0, ref->mag, err);
    if (!rc && x.sums_cut && !(rc = td_op_ref_new_ordered(ref, err)))
        rc = td_scaled_mm_cut(&x, ref->r0, ref->ordered, ref->slack, err);
    if (rc)
        td_op_ref_release(ref);
    else
        td_op_ref_add_bias(ref, x.bias);
    return rc;
}

const struct td_op_kind td_scaled_mm_kind = {"scaled_mm", check_scaled_mm,
                                             compute_scaled_mm_reference};
