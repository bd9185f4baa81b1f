/* rms_norm_op.c - what a recorded "rms_norm" or "fused_add_rms_norm" means, and its right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * mag is the magnitude of the result: all terms of the sum are positive, so that the error of a float32 sum over the row is
 * one of the result, relative to it. */
#include "kernels/ops/rms_norm_op.h"

#include <math.h>
#include <string.h>

#include "kernels/ops/store_rounded.h"

static int read_sizes(const struct td_op_call *op, bool adds, struct td_rms_norm *x, struct td_error *err)
{
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) ||
        (rc = td_beside_scalar(op, "eps", &x->epsilon, err)) || (rc = td_beside_part(op, adds ? 2 : 1, &x->part, err)))
        return rc;
    if (!(x->epsilon >= 0 && isfinite(x->epsilon)))
        return td_fail(err, TD_EINVAL, "%s: eps is %g", op->kind, x->epsilon);
    return 0;
}

static int check_together(const struct td_op_call *op, const struct td_rms_norm *x, struct td_error *err)
{
    if (x->cols % x->n)
        return td_fail(err, TD_EINVAL, "%s: rows of %lld are no multiple of n %lld", op->kind, (long long)x->cols, (long long)x->n);
    if (x->residual.t && (x->residual.cols != x->cols || x->residual.t->dtype != x->a.t->dtype))
        return td_fail(err, TD_EINVAL, "%s: the residual is not of a's type and shape", op->kind);
    return 0;
}

int td_rms_norm_of(const struct td_op_call *op, bool adds, struct td_rms_norm *x, struct td_error *err)
{
    static const char *const plain[] = {"a", "w", "eps", NULL}, *const fused[] = {"a", "residual", "w", "eps", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_beside_check_known(op, adds ? fused : plain, err)) || (rc = read_sizes(op, adds, x, err)) ||
        (rc = td_beside_matrix(op, "a", TD_DT_FLOATS, x->m, &x->a, err)) ||
        (adds && (rc = td_beside_matrix(op, "residual", TD_DT_FLOATS, x->m, &x->residual, err))) ||
        (td_op_in(op, "w") && (rc = td_beside_vector(op, "w", TD_DT_FLOATS, x->n, &x->w, err))))
        return rc;
    x->cols = x->a.cols;
    rc = check_together(op, x, err);
    return rc ? rc : td_beside_check_out(op, TD_DT_FLOATS, x->m, x->cols, err);
}

/* What is normed. */
static double element(const struct td_rms_norm *x, int64_t i, int64_t j)
{
    const double a = td_matrix_get(&x->a, i, j);

    return x->residual.t ? td_rounded_to(x->a.t->dtype, a + td_matrix_get(&x->residual, i, j)) : a;
}

static void norm_vector(const struct td_rms_norm *x, int64_t i, int64_t from, double *r0, double *mag)
{
    double squares = 0, factor;

    for (int64_t j = 0; j < x->n; j++) {
        r0[j] = element(x, i, from + j);
        squares += r0[j] * r0[j];
    }
    factor = 1 / sqrt(squares / (double)x->n + x->epsilon);
    for (int64_t j = 0; j < x->n; j++) {
        r0[j] *= factor * (x->w.t ? td_matrix_get(&x->w, j, 0) : 1);
        mag[j] = fabs(r0[j]);
    }
}

static void norm_row(const void *of, int64_t i, double *r0, double *mag)
{
    const struct td_rms_norm *x = of;

    for (int64_t j = 0; j < x->cols; j += x->n)
        norm_vector(x, i, j, r0 + j, mag + j);
}

static void add_row(const void *of, int64_t i, double *r0, double *mag)
{
    const struct td_rms_norm *x = of;

    for (int64_t j = 0; j < x->cols; j++) {
        const double a = td_matrix_get(&x->a, i, j), b = td_matrix_get(&x->residual, i, j);

        r0[j] = a + b;
        mag[j] = fabs(a) + fabs(b);
    }
}

int td_rms_norm_reference(const struct td_op_call *op, bool adds, struct td_op_ref *ref, struct td_error *err)
{
    struct td_rms_norm x;
    int rc;

    memset(ref, 0, sizeof *ref);
    rc = td_rms_norm_of(op, adds, &x, err);
    return rc       ? rc
           : x.part ? td_beside_reference(x.m, x.cols, 1, add_row, &x, ref, err)
                    : td_beside_reference(x.m, x.cols, x.n, norm_row, &x, ref, err);
}
