/* silu_and_mul_kind.c - ops of kind "silu_and_mul": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   c = x / (1 + exp(-x)) * y, of each 2 n neighbours of a row: x the first n, y the others
 *   a : [m, cols] float, cols a multiple of 2 n     c : [m, cols / 2] float
 *   attributes m, n
 *
 * Kernels of the field round x / (1 + exp(-x)) to the type of a before they multiply, and exp is good for two or three units:
 * mag has room for that, and for the steps of subnormal F16 numbers, which y enlarges.
 * Source: vLLM 0.26, csrc/libtorch_stable/activation_kernels.cu. */
#include <math.h>
#include <string.h>

#include "kernels/ops/beside_op.h"
#include "kernels/ops/op_kind.h"

#define OF_EXP 4.0                       /* units of float32 that exp, the sum and the division may be off together */
#define SUBNORMAL_F16 0.5                /* half a step of a subnormal, 2^-25, in units of float32 */

struct silu { int64_t m, n; struct td_matrix a; };

static int read_op(const struct td_op_call *op, struct silu *x, struct td_error *err)
{
    static const char *const roles[] = {"a", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_beside_check_known(op, roles, err)) || (rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) ||
        (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) || (rc = td_beside_matrix(op, "a", TD_DT_FLOATS, x->m, &x->a, err)))
        return rc;
    if (x->a.cols % (2 * x->n))
        return td_fail(err, TD_EINVAL, "%s: rows of %lld are no multiple of 2 n, n %lld", op->kind, (long long)x->a.cols, (long long)x->n);
    return td_beside_check_out(op, TD_DT_FLOATS, x->m, x->a.cols / 2, err);
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct silu x;

    return read_op(op, &x, err);
}

static void compute_row(const void *of, int64_t i, double *r0, double *mag)
{
    const struct silu *x = of;
    const double step = x->a.t->dtype == TD_DT_F16 ? SUBNORMAL_F16 : 0;

    for (int64_t at = 0; at < x->a.cols; at += 2 * x->n)
        for (int64_t j = 0; j < x->n; j++, r0++, mag++) {
            const double gate = td_matrix_get(&x->a, i, at + j), up = td_matrix_get(&x->a, i, at + x->n + j);

            *r0 = gate / (1 + exp(-gate)) * up;
            *mag = OF_EXP * fabs(*r0) + step * fabs(up);
        }
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct silu x;
    const int rc = read_op(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_beside_reference(x.m, x.a.cols / 2, 1, compute_row, &x, ref, err);
}

const struct td_op_kind td_silu_and_mul_kind = {"silu_and_mul", check, compute_reference};
