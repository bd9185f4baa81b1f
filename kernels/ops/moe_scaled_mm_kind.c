/* moe_scaled_mm_kind.c - ops of kind "moe_scaled_mm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each expert's rows are a scaled_mm. */
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/moe_scaled_mm_op.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/scaled_mm_cut.h"
#include "kernels/ops/scaled_mm_ref.h"

static int check_moe_scaled_mm(const struct td_op_call *op, struct td_error *err)
{
    struct td_moe_scaled_mm x;

    return td_moe_scaled_mm_of(op, &x, err);
}

/* The rows of C that expert e computes. */
static int multiply_expert(const struct td_moe_scaled_mm *x, int64_t e, struct td_op_ref *ref,
                           struct td_error *err)
{
    const struct td_scaled_mm o = td_moe_scaled_mm_expert(x, e);
    const int64_t first = td_moe_scaled_mm_first(x, e), at = first * o.n;
    int rc;

    if (!o.m)
        return 0;
    memset(ref->unjudged + first, 0, (size_t)o.m);
    rc = td_scaled_mm_ref(&o, ref->r0 + at, ref->mag + at, err);
    return rc || !o.sums_cut ? rc : td_scaled_mm_cut(&o, ref->r0 + at, ref->ordered + at, ref->slack + at, err);
}

static int compute_moe_scaled_mm_reference(const struct td_op_call *op, struct td_op_ref *ref,
                                           struct td_error *err)
{
    struct td_moe_scaled_mm x;
    size_t results;
    int rc;

    memset(ref, 0, sizeof *ref);
    if ((rc = td_moe_scaled_mm_of(op, &x, err)) ||
        (rc = td_op_ref_new(ref, x.all.m, x.all.n, x.all.k, false, err)))
        return rc;
    results = (size_t)x.all.m * (size_t)x.all.n;
    ref->unjudged = malloc((size_t)x.all.m + 1);
    if (!ref->unjudged)
        rc = td_fail(err, TD_ENOMEM, "moe_scaled_mm: out of memory for the reference");
    else
        memset(ref->unjudged, 1, (size_t)x.all.m);
    if (!rc && x.all.sums_cut)
        rc = td_op_ref_new_ordered(ref, err);
    memset(ref->r0, 0, results * sizeof *ref->r0);
    memset(ref->mag, 0, results * sizeof *ref->mag);
    for (int64_t e = 0; !rc && e < x.experts; e++)
        rc = multiply_expert(&x, e, ref, err);
    if (rc)
        td_op_ref_release(ref);
    return rc;
}

const struct td_op_kind td_moe_scaled_mm_kind = {"moe_scaled_mm", check_moe_scaled_mm,
                                                 compute_moe_scaled_mm_reference};
