/* permute_cols_kind.c - ops of kind "permute_cols": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   c[i][j] = a[i][perm[j]], copied
 *   a : [m, n] F16 or BF16     perm : [n] I32, each below n     c : [m, n] of a's type
 *   attributes m, n
 * Source: vLLM 0.26, csrc/libtorch_stable/permute_cols.cu. */
#include <string.h>

#include "kernels/ops/beside_op.h"
#include "kernels/ops/op_kind.h"

#define HALVES (TD_DT_BIT(TD_DT_F16) | TD_DT_BIT(TD_DT_BF16))

struct permute { int64_t m, n; struct td_matrix a, perm; };

static int check_perm(const struct td_op_call *op, const struct permute *x, struct td_error *err)
{
    const int32_t *perm = x->perm.t->data;

    for (int64_t j = 0; j < x->n; j++)
        if (perm[j] < 0 || perm[j] >= x->n)
            return td_fail(err, TD_EINVAL, "%s: column %d, of %lld, is where column %lld comes from", op->kind, perm[j], (long long)x->n, (long long)j);
    return 0;
}

static int read_op(const struct td_op_call *op, struct permute *x, struct td_error *err)
{
    static const char *const roles[] = {"a", "perm", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_beside_check_known(op, roles, err)) || (rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) ||
        (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) || (rc = td_beside_matrix(op, "a", HALVES, x->m, &x->a, err)))
        return rc;
    if (x->a.cols != x->n)
        return td_fail(err, TD_EINVAL, "%s: rows of %lld, n is %lld", op->kind, (long long)x->a.cols, (long long)x->n);
    if ((rc = td_beside_vector(op, "perm", TD_DT_BIT(TD_DT_I32), x->n, &x->perm, err)) || (rc = check_perm(op, x, err)))
        return rc;
    return td_beside_check_out(op, TD_DT_BIT(x->a.t->dtype), x->m, x->n, err);
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct permute x;

    return read_op(op, &x, err);
}

static void compute_row(const void *of, int64_t i, double *r0, double *mag)
{
    const struct permute *x = of;
    const int32_t *perm = x->perm.t->data;

    for (int64_t j = 0; j < x->n; j++)
        r0[j] = td_matrix_get(&x->a, i, perm[j]), mag[j] = 0;
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct permute x;
    const int rc = read_op(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_beside_reference(x.m, x.n, 1, compute_row, &x, ref, err);
}

const struct td_op_kind td_permute_cols_kind = {"permute_cols", check, compute_reference};
