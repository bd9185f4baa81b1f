/* gemm_op.c - what a recorded "gemm" means: its roles, its rules, its right answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gemm_op.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/rowdot.h"
#include "model/ggml_blocks.h"

/* What this version would silently leave out of the product. */
static int check_unknown(const struct td_op_call *op, struct td_error *err)
{
    if (td_op_attr(op, "trans_a", 0) != 0 || td_op_attr(op, "trans_b", 1) != 1)
        return td_fail(err, TD_EUNSUPPORTED, "gemm: trans_a %lld, trans_b %lld; this version takes W as [n, k] only",
                       (long long)td_op_attr(op, "trans_a", 0), (long long)td_op_attr(op, "trans_b", 1));
    if (op->act_rounding[0] && strcmp(op->act_rounding, "none"))
        return td_fail(err, TD_EUNSUPPORTED, "gemm: the rounding of activations \"%s\" is not known", op->act_rounding);
    for (int t = 0; t < op->n_in; t++)
        if (strcmp(op->in[t].role, "a") && strcmp(op->in[t].role, "w") && strcmp(op->in[t].role, "bias"))
            return td_fail(err, TD_EUNSUPPORTED, "gemm: this version does not know what \"%s\" does", op->in[t].role);
    return 0;
}

int td_gemm_of(const struct td_op_call *op, struct td_gemm *x, struct td_error *err)
{
    const void *a = NULL, *w = NULL;
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err))
        || (rc = td_op_check_attr(op, "k", 1, INT64_MIN, &x->k, err)) || (rc = check_unknown(op, err))
        || (rc = td_op_check_in(op, &(struct td_op_expect){"a", TD_DT_FLOATS, 2, x->m, x->k}, &x->lda, &a, err))
        || (rc = td_op_check_in(op, &(struct td_op_expect){"w", TD_DT_FLOATS, 2, x->n, x->k}, &x->ldw, &w, err))
        || (rc = td_op_check_tensor(op, &op->out, &(struct td_op_expect){"c", TD_DT_FLOATS, 2, x->m, x->n}, &x->ldc, err))
        || (rc = td_op_check_bias(op, x->n, &x->bias, err)))
        return rc;
    x->a_dtype = td_op_in(op, "a")->dtype;
    x->w_dtype = td_op_in(op, "w")->dtype;
    x->c_dtype = op->out.dtype;
    x->a = a;
    x->w = w;
    x->c = op->out.data;
    return 0;
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct td_gemm x;

    return td_gemm_of(op, &x, err);
}

static void compute(const struct td_gemm *x, double *a, double *w, struct td_op_ref *ref)
{
    for (int64_t i = 0; i < x->m; i++)
        td_ggml_split_row(x->a_dtype, x->a + (size_t)(i * x->lda) * td_dtype_size(x->a_dtype), x->k, a + i * x->k, NULL);
    for (int64_t n = 0; n < x->n; n++) {
        td_ggml_split_row(x->w_dtype, x->w + (size_t)(n * x->ldw) * td_dtype_size(x->w_dtype), x->k, w, NULL);
        td_rowdot(&(struct td_rowdot){x->k, x->m, w, w, a, a, ref->r0 + n, NULL, ref->mag + n, x->n});
    }
    td_op_ref_add_bias(ref, x->bias);
}

static int reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gemm x;
    double *a;
    int rc;

    memset(ref, 0, sizeof *ref);
    if ((rc = td_gemm_of(op, &x, err)) || (rc = td_op_ref_new(ref, x.m, x.n, x.k, false, err)))
        return rc;
    if (!(a = malloc((size_t)(x.m + 1) * (size_t)x.k * sizeof *a))) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "gemm: out of memory for the reference");
    }
    compute(&x, a, a + x.m * x.k, ref);
    free(a);
    return 0;
}

const struct td_op_kind td_gemm_kind = {"gemm", check, reference};
