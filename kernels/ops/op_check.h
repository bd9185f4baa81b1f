/* op_check.h - checks of recorded ops that several kinds share. A record comes from a file, which may be damaged or hostile.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_OP_CHECK_H
#define TD_KERNELS_OPS_OP_CHECK_H

#include "kernels/ops/op.h"

#define TD_DT_BIT(dt) (1u << (dt))
#define TD_DT_FLOATS (TD_DT_BIT(TD_DT_F16) | TD_DT_BIT(TD_DT_BF16) | TD_DT_BIT(TD_DT_F32))

/* Attribute `name` within [min, INT32_MAX]; missing: its value when the record has none, INT64_MIN = it must be there. */
int td_op_check_attr(const struct td_op_call *op, const char *name, int64_t min, int64_t missing, int64_t *out, struct td_error *err);

/* What a kind expects of one of its tensors: dtypes (bits), [d0, d1] or, ndim 1, [d0]. */
struct td_op_expect {
    const char *role;
    unsigned dtypes;
    int ndim;
    int64_t d0, d1;
};

/* Dtype, shape, strides (the last one 1; rows *ld apart and not overlapping, or dense throughout when ld is NULL), size of the memory
 * and alignment to elements. t NULL: it is missing. t->data may be NULL. 0 or TD_EINVAL with a sentence. */
int td_op_check_tensor(const struct td_op_call *op, const struct td_tensor *t, const struct td_op_expect *want, int64_t *ld, struct td_error *err);
/* The same of an input, whose data must be there. */
int td_op_check_in(const struct td_op_call *op, const struct td_op_expect *want, int64_t *ld, const void **data, struct td_error *err);
/* An optional bias [n] of any float: *bias is NULL when there is none. */
int td_op_check_bias(const struct td_op_call *op, int64_t n, const struct td_tensor **bias, struct td_error *err);
/* Bytes that a tensor of this shape and these strides spans, up to its last element or block; < 0: no such thing. */
int64_t td_op_span_bytes(const struct td_tensor *t);

/* Memory for rows x cols results, at most TD_OP_REF_MAX. own_r1: R1 differs from R0. TD_ENOMEM, TD_ELIMIT. */
#define TD_OP_REF_MAX ((int64_t)1 << 31)
int td_op_ref_new(struct td_op_ref *ref, int64_t rows, int64_t cols, int64_t inner, bool own_r1, struct td_error *err);
/* Add bias [cols] to r0 and r1, its magnitude to mag; NULL: nothing. */
void td_op_ref_add_bias(struct td_op_ref *ref, const struct td_tensor *bias);

#endif
