/* beside_op.h - what the kinds of op that stand beside products share: their matrices, and what none of them knows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Such an op is one output of a call of an operator: of a call with two outputs, attribute "part" says which. Its inputs are
 * those from before the call, also where the call wrote its outputs over them. */
#ifndef TD_KERNELS_OPS_BESIDE_OP_H
#define TD_KERNELS_OPS_BESIDE_OP_H

#include "kernels/ops/op_check.h"

/* A matrix of a checked op: [rows, cols], rows ld elements apart. A vector is one row. t NULL: there is none. */
struct td_matrix { const struct td_tensor *t; int64_t rows, cols, ld; };

static inline double td_matrix_get(const struct td_matrix *x, int64_t i, int64_t j)
{
    return td_dtype_get(x->t->dtype, x->t->data, (size_t)(i * x->ld + j));
}

/* Refuse a role that is not among roles (NULL ends them), and a rounding: these kinds declare none. */
int td_beside_check_known(const struct td_op_call *op, const char *const *roles, struct td_error *err);
/* Read input `role`: one of dtypes (TD_DT_BIT), `rows` rows of whatever length. 0, or TD_EINVAL with a sentence. */
int td_beside_matrix(const struct td_op_call *op, const char *role, unsigned dtypes, int64_t rows,
                     struct td_matrix *x, struct td_error *err);
/* The same of a vector [n], which may be [n, 1]. */
int td_beside_vector(const struct td_op_call *op, const char *role, unsigned dtypes, int64_t n,
                     struct td_matrix *x, struct td_error *err);
/* The number in input `role`, F32: of no dimensions, or [1]. 0, or TD_EINVAL with a sentence. */
int td_beside_scalar(const struct td_op_call *op, const char *role, double *value, struct td_error *err);
/* Check that the output is [rows, cols], or [rows] where cols is 1. */
int td_beside_check_out(const struct td_op_call *op, unsigned dtypes, int64_t rows, int64_t cols, struct td_error *err);
/* The attribute "part", below parts: which output of the call this op is. */
int td_beside_part(const struct td_op_call *op, int64_t parts, int64_t *part, struct td_error *err);

/* Codes of 8 bits are right or wrong; but where float32 may round to either of two, because the number lies half-way
 * between them, mag has room for the other. */
#define TD_CODE_FLOAT_ERROR (8 * 0x1p-24)  /* of a quotient in float32, by way of an inverse or not, relative to it */
#define TD_CODE_ROOM_OF_STEP 0x1p23        /* mag of an element that may be one step off: the judge takes 2^-24 * sqrt(inner) of it */
#define TD_CODE_INNER 4

/* What a kind computes of one row: r0 and mag, [cols] each. */
typedef void td_beside_row(const void *x, int64_t i, double *r0, double *mag);
/* Fill *ref, of rows x cols, row by row. inner: how many numbers an element sums up. */
int td_beside_reference(int64_t rows, int64_t cols, int64_t inner, td_beside_row *row, const void *x,
                        struct td_op_ref *ref, struct td_error *err);

#endif
