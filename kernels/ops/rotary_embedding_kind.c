/* rotary_embedding_kind.c - ops of kind "rotary_embedding": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Part 0 turns a, the queries; part 1 turns key. Of each head of n numbers those from `offset` on are turned in pairs, by the
 * angle of the row's position; the others stay.
 *   a, key    : [m, heads * n] float; key may be missing       c : of the part's type and shape
 *   positions : [m] I64 or I32
 *   cos_sin   : [positions, rot] float: rot / 2 cosines, then as many sines
 *   attributes m, n; neox 1: number j is paired with j + rot / 2, 0: 2 j with 2 j + 1; offset (0); inverse (0), 1: turn back
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/pos_encoding_kernels.cu. */
#include <math.h>
#include <string.h>

#include "kernels/ops/beside_op.h"
#include "kernels/ops/op_kind.h"

struct rotary {
    int64_t m, n, part, neox, offset, inverse;
    struct td_matrix x, positions, cos_sin; /* x: what is turned */
};

static int read_attrs(const struct td_op_call *op, struct rotary *x, struct td_error *err)
{
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) ||
        (rc = td_op_check_attr(op, "neox", 0, INT64_MIN, &x->neox, err)) || (rc = td_op_check_attr(op, "offset", 0, 0, &x->offset, err)) ||
        (rc = td_op_check_attr(op, "inverse", 0, 0, &x->inverse, err)))
        return rc;
    return td_beside_part(op, td_op_in(op, "key") ? 2 : 1, &x->part, err);
}

/* Every position must have a line in the table. */
static int check_positions(const struct td_op_call *op, const struct rotary *x, struct td_error *err)
{
    for (int64_t i = 0; i < x->m; i++) {
        const double at = td_matrix_get(&x->positions, i, 0);

        if (!(at >= 0 && at < (double)x->cos_sin.rows))
            return td_fail(err, TD_EINVAL, "%s: position %.0f of row %lld is beyond the table, which has %lld", op->kind, at, (long long)i, (long long)x->cos_sin.rows);
    }
    return 0;
}

static int read_tensors(const struct td_op_call *op, struct rotary *x, struct td_error *err)
{
    const unsigned integers = TD_DT_BIT(TD_DT_I64) | TD_DT_BIT(TD_DT_I32);
    const struct td_tensor *table = td_op_in(op, "cos_sin");
    const int64_t lines = table && table->ndim == 2 ? table->shape[0] : 0;
    struct td_matrix other;
    int rc;

    if ((rc = td_beside_matrix(op, x->part ? "key" : "a", TD_DT_FLOATS, x->m, &x->x, err)) ||
        (td_op_in(op, "key") && (rc = td_beside_matrix(op, x->part ? "a" : "key", TD_DT_FLOATS, x->m, &other, err))) ||
        (rc = td_beside_vector(op, "positions", integers, x->m, &x->positions, err)) ||
        (rc = td_beside_matrix(op, "cos_sin", TD_DT_FLOATS, lines, &x->cos_sin, err)))
        return rc;
    if (x->x.cols % x->n || x->cos_sin.cols % 2 || x->cos_sin.cols + x->offset > x->n)
        return td_fail(err, TD_EINVAL, "%s: rows of %lld, heads of %lld, of which %lld from %lld on are turned, do not fit together", op->kind,
                       (long long)x->x.cols, (long long)x->n, (long long)x->cos_sin.cols, (long long)x->offset);
    return check_positions(op, x, err);
}

static int read_op(const struct td_op_call *op, struct rotary *x, struct td_error *err)
{
    static const char *const roles[] = {"positions", "a", "key", "cos_sin", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_beside_check_known(op, roles, err)) || (rc = read_attrs(op, x, err)) || (rc = read_tensors(op, x, err)))
        return rc;
    return td_beside_check_out(op, TD_DT_FLOATS, x->m, x->x.cols, err);
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct rotary x;

    return read_op(op, &x, err);
}

static void turn_head(const struct rotary *x, int64_t i, int64_t head, double *r0, double *mag)
{
    const int64_t half = x->cos_sin.cols / 2, line = (int64_t)td_matrix_get(&x->positions, i, 0);

    for (int64_t j = 0; j < x->n; j++)
        r0[j] = td_matrix_get(&x->x, i, head + j), mag[j] = 0;
    for (int64_t j = 0; j < half; j++) {
        const int64_t p = x->offset + (x->neox ? j : 2 * j), q = x->offset + (x->neox ? j + half : 2 * j + 1);
        const double cosine = td_matrix_get(&x->cos_sin, line, j),
                     sine = td_matrix_get(&x->cos_sin, line, half + j) * (x->inverse ? -1 : 1), a = r0[p], b = r0[q];

        r0[p] = a * cosine - b * sine, mag[p] = fabs(a * cosine) + fabs(b * sine);
        r0[q] = b * cosine + a * sine, mag[q] = fabs(b * cosine) + fabs(a * sine);
    }
}

static void turn_row(const void *of, int64_t i, double *r0, double *mag)
{
    const struct rotary *x = of;

    for (int64_t head = 0; head < x->x.cols; head += x->n)
        turn_head(x, i, head, r0 + head, mag + head);
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct rotary x;
    const int rc = read_op(op, &x, err);

    memset(ref, 0, sizeof *ref);
    return rc ? rc : td_beside_reference(x.m, x.x.cols, 2, turn_row, &x, ref, err);
}

const struct td_op_kind td_rotary_embedding_kind = {"rotary_embedding", check, compute_reference};
