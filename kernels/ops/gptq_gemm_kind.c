/* gptq_gemm_kind.c - ops of kind "gptq_gemm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plain op has the reference that adds in the order of K (gptq_gemm_ref.c, the judge's hot loop);
 * any other form has that of gptq_any_ref.c. */
#include <string.h>

#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/gptq_gemm_ref.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"

static int check_gptq_gemm(const struct td_op_call *op, struct td_error *err)
{
    struct td_gptq_op x;

    return td_gptq_op_of(op, &x, err);
}

static int compute_plain_reference(const struct td_gptq_op *x, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gptq_gemm_args args;
    int rc = td_op_ref_new(ref, x->m, x->n, x->k, false, err);

    td_gptq_op_args(x, &args);
    if (!rc && td_gptq_gemm_ref(&args, ref->r0, ref->mag)) {
        td_op_ref_release(ref);
        rc = td_fail(err, TD_ENOMEM, "gptq_gemm: out of memory for the reference");
    }
    return rc;
}

static int compute_gptq_gemm_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gptq_op x;
    const int rc = td_gptq_op_of(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_gptq_op_is_plain(&x) ? compute_plain_reference(&x, ref, err) : td_gptq_op_ref(&x, ref, err);
}

const struct td_op_kind td_gptq_gemm_kind = {"gptq_gemm", check_gptq_gemm, compute_gptq_gemm_reference};
