/* op_check.h - checks of recorded ops that several kinds share, and the memory of their references.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A record comes from a file, which may be damaged or hostile: nothing of it is believed. */
#ifndef TD_KERNELS_OPS_OP_CHECK_H
#define TD_KERNELS_OPS_OP_CHECK_H

#include "kernels/ops/op.h"

#define TD_DT_BIT(dt) (1u << (dt))
#define TD_DT_FLOATS (TD_DT_BIT(TD_DT_F16) | TD_DT_BIT(TD_DT_BF16) | TD_DT_BIT(TD_DT_F32))

/* Read attribute `name`, which must be within [min, INT32_MAX]. missing : its value if the record has
 * none; INT64_MIN: it must be there. 0 or TD_EINVAL. */
int td_op_check_attr(const struct td_op_call *op, const char *name, int64_t min, int64_t missing,
                     int64_t *out, struct td_error *err);

/* What a kind expects of one of its tensors: one of dtypes (TD_DT_BIT), shape [d0, d1], or [d0] when
 * ndim is 1. */
struct td_op_expect {
    const char *role;
    unsigned dtypes;
    int ndim;
    int64_t d0, d1;
};

/* Check dtype, shape, strides, size of the memory and alignment to elements. The last stride must be 1;
 * rows must lie *ld apart without overlapping, or, when ld is NULL, be dense.
 * t : NULL when it is missing; t->data may be NULL. 0, or TD_EINVAL with a sentence. */
int td_op_check_tensor(const struct td_op_call *op, const struct td_tensor *t,
                       const struct td_op_expect *want, int64_t *ld, struct td_error *err);
/* The same for the input want->role, whose data must be there: *data. */
int td_op_check_in(const struct td_op_call *op, const struct td_op_expect *want, int64_t *ld,
                   const void **data, struct td_error *err);
/* Check the optional input "bias", [n] of any float. *bias is NULL when there is none. */
int td_op_check_bias(const struct td_op_call *op, int64_t n, const struct td_tensor **bias, struct td_error *err);
/* Bytes that a tensor of this shape and these strides spans, up to the end of its last element or block.
 * < 0: a negative size or stride, or an overflow. */
int64_t td_op_span_bytes(const struct td_tensor *t);

/* Allocate *ref for rows x cols results, at most TD_OP_REF_MAX of them; contents are undefined.
 * own_r1 : R1 differs from R0 and has memory of its own. TD_ENOMEM, TD_ELIMIT. */
#define TD_OP_REF_MAX ((int64_t)1 << 31)
int td_op_ref_new(struct td_op_ref *ref, int64_t rows, int64_t cols, int64_t inner, bool own_r1, struct td_error *err);
/* Give *ref a slack of 0 everywhere; such a slack and such an ordered. TD_ENOMEM. */
int td_op_ref_new_slack(struct td_op_ref *ref, struct td_error *err);
int td_op_ref_new_ordered(struct td_op_ref *ref, struct td_error *err);
/* The error of one rounding of x to dtype, at most: for slack. */
double td_op_rounding_error(enum td_dtype dtype, double x);
/* r1 is what the kernel rounds to dtype before more is done to it: allow for that in slack. */
void td_op_ref_allow_rounding(struct td_op_ref *ref, enum td_dtype dtype);
/* Add bias [cols] to r0, r1 and ordered, and its magnitude to mag. NULL: do nothing. */
void td_op_ref_add_bias(struct td_op_ref *ref, const struct td_tensor *bias);

#endif
