/* beside_op.c - what the kinds of op that stand beside products share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/beside_op.h"

#include <string.h>

int td_beside_check_known(const struct td_op_call *op, const char *const *roles, struct td_error *err)
{
    if (op->act_rounding[0] && strcmp(op->act_rounding, "none"))
        return td_fail(err, TD_EUNSUPPORTED, "%s: the rounding \"%s\" is not known", op->kind, op->act_rounding);
    for (int t = 0; t < op->n_in; t++) {
        int r = 0;

        while (roles[r] && strcmp(op->in[t].role, roles[r]))
            r++;
        if (!roles[r])
            return td_fail(err, TD_EUNSUPPORTED, "%s: this version does not know what \"%s\" does", op->kind, op->in[t].role);
    }
    return 0;
}

int td_beside_matrix(const struct td_op_call *op, const char *role, unsigned dtypes, int64_t rows,
                     struct td_matrix *x, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, role);
    const void *data;

    *x = (struct td_matrix){.t = t, .rows = rows, .cols = t && t->ndim == 2 ? t->shape[1] : 0};
    if (t && t->ndim == 2 && (x->cols < 1 || x->cols > INT32_MAX))
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" has rows of %lld elements", op->kind, role, (long long)x->cols);
    return td_op_check_in(op, &(struct td_op_expect){role, dtypes, 2, rows, x->cols}, &x->ld, &data, err);
}

int td_beside_vector(const struct td_op_call *op, const char *role, unsigned dtypes, int64_t n,
                     struct td_matrix *x, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, role);
    const void *data;

    *x = (struct td_matrix){.t = t, .rows = n, .cols = 1, .ld = 1};
    if (t && t->ndim == 2)
        return td_op_check_in(op, &(struct td_op_expect){role, dtypes, 2, n, 1}, NULL, &data, err);
    return td_op_check_in(op, &(struct td_op_expect){role, dtypes, 1, n, 1}, NULL, &data, err);
}

int td_beside_scalar(const struct td_op_call *op, const char *role, double *value, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, role);
    struct td_matrix x;
    float one;
    int rc;

    if (!t || t->ndim || !t->data || t->dtype != TD_DT_F32 || t->size_bytes < sizeof one) {
        rc = td_beside_vector(op, role, TD_DT_BIT(TD_DT_F32), 1, &x, err);
        *value = rc ? 0 : td_matrix_get(&x, 0, 0);
        return rc;
    }
    memcpy(&one, t->data, sizeof one);
    *value = (double)one;
    return 0;
}

int td_beside_check_out(const struct td_op_call *op, unsigned dtypes, int64_t rows, int64_t cols, struct td_error *err)
{
    int64_t ld;

    if (cols == 1 && op->out.ndim == 1)
        return td_op_check_tensor(op, &op->out, &(struct td_op_expect){"c", dtypes, 1, rows, 1}, NULL, err);
    return td_op_check_tensor(op, &op->out, &(struct td_op_expect){"c", dtypes, 2, rows, cols}, &ld, err);
}

int td_beside_part(const struct td_op_call *op, int64_t parts, int64_t *part, struct td_error *err)
{
    const int rc = td_op_check_attr(op, "part", 0, 0, part, err);

    if (rc || *part < parts)
        return rc;
    return td_fail(err, TD_EINVAL, "%s: part %lld, a call has %lld outputs", op->kind, (long long)*part, (long long)parts);
}

int td_beside_reference(int64_t rows, int64_t cols, int64_t inner, td_beside_row *row, const void *x,
                        struct td_op_ref *ref, struct td_error *err)
{
    const int rc = td_op_ref_new(ref, rows, cols, inner, false, err);

    for (int64_t i = 0; !rc && i < rows; i++)
        row(x, i, ref->r0 + i * cols, ref->mag + i * cols);
    return rc;
}
