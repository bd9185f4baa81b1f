/* gemm_kind.c - ops of kind "gemm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every row of W is widened once and meets all rows of A. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/ops/gemm_op.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/rowdot.h"
#include "model/ggml_blocks.h"

static int check_gemm(const struct td_op_call *op, struct td_error *err)
{
    struct td_gemm x;

    return td_gemm_of(op, &x, err);
}

static void multiply_rows(const struct td_gemm *x, double *a, double *w, struct td_op_ref *ref)
{
    for (int64_t i = 0; i < x->m; i++)
        td_ggml_split_row(x->a_dtype, x->a + (size_t)(i * x->lda) * td_dtype_size(x->a_dtype), x->k, a + i * x->k, NULL);
    for (int64_t n = 0; n < x->n; n++) {
        td_ggml_split_row(x->w_dtype, x->w + (size_t)(n * x->ldw) * td_dtype_size(x->w_dtype), x->k, w, NULL);
        td_rowdot(&(struct td_rowdot){x->k, x->m, w, w, a, a, ref->r0 + n, NULL, ref->mag + n, x->n});
    }
    if (x->bias_after)
        td_op_ref_allow_rounding(ref, x->c_dtype);
    td_op_ref_add_bias(ref, x->bias);
}

static int compute_gemm_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gemm x;
    double *a;
    int rc;

    memset(ref, 0, sizeof *ref);
    if ((rc = td_gemm_of(op, &x, err)) || (rc = td_op_ref_new(ref, x.m, x.n, x.k, false, err)))
        return rc;
    if ((x.bias_after && (rc = td_op_ref_new_slack(ref, err))) ||
        (rc = td_memory_room((uint64_t)(x.m + 1) * (uint64_t)x.k * sizeof *a, "the reference of a gemm", err))) {
        td_op_ref_release(ref);
        return rc;
    }
    if (!(a = malloc((size_t)(x.m + 1) * (size_t)x.k * sizeof *a))) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "gemm: out of memory for the reference");
    }
    multiply_rows(&x, a, a + x.m * x.k, ref);
    free(a);
    return 0;
}

const struct td_op_kind td_gemm_kind = {"gemm", check_gemm, compute_gemm_reference};
