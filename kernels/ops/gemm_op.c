/* gemm_op.c - what a recorded "gemm" means: its roles and its rules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gemm_op.h"

#include <string.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/op_rounding.h"

/* Refuse what this version would leave out of the product. */
static int check_unknown(const struct td_op_call *op, struct td_op_rounding *r, struct td_error *err)
{
    if (td_op_attr(op, "trans_a", 0) != 0 || td_op_attr(op, "trans_b", 1) != 1)
        return td_fail(err, TD_EUNSUPPORTED, "gemm: trans_a %lld, trans_b %lld; this version takes W as [n, k] only",
                       (long long)td_op_attr(op, "trans_a", 0), (long long)td_op_attr(op, "trans_b", 1));
    if (!td_op_rounding_read(op->act_rounding, r) || r->sums_cut || strcmp(r->factors, "none"))
        return td_fail(err, TD_EUNSUPPORTED, "gemm: the rounding of activations \"%s\" is not known", op->act_rounding);
    for (int t = 0; t < op->n_in; t++)
        if (strcmp(op->in[t].role, "a") && strcmp(op->in[t].role, "w") && strcmp(op->in[t].role, "bias"))
            return td_fail(err, TD_EUNSUPPORTED, "gemm: this version does not know what \"%s\" does", op->in[t].role);
    return 0;
}

int td_gemm_of(const struct td_op_call *op, struct td_gemm *x, struct td_error *err)
{
    const void *a = NULL, *w = NULL;
    struct td_op_rounding r;
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err))
        || (rc = td_op_check_attr(op, "k", 1, INT64_MIN, &x->k, err)) || (rc = check_unknown(op, &r, err))
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
    x->bias_after = x->bias && r.bias_after;
    return 0;
}
