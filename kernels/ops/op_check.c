/* op_check.c - checks of recorded ops that several kinds share, and the memory of their references.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

int td_op_check_attr(const struct td_op_call *op, const char *name, int64_t min, int64_t missing,
                     int64_t *out, struct td_error *err)
{
    const int64_t v = td_op_attr(op, name, missing);

    if (v < min || v > INT32_MAX)
        return td_fail(err, TD_EINVAL, "%s: attribute %s is %s", op->kind, name, v == INT64_MIN ? "missing" : "out of range");
    *out = v;
    return 0;
}

int64_t td_op_span_bytes(const struct td_tensor *t)
{
    int64_t last = 0, reach, bytes;
    bool empty = false;

    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0 || t->strides[d] < 0)
            return -1;
        empty |= t->shape[d] == 0;
    }
    for (int d = 0; d < t->ndim && !empty; d++)
        if (__builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach) || __builtin_add_overflow(last, reach, &last))
            return -1;
    if (empty)
        return 0;
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, (int64_t)td_dtype_size(t->dtype), &bytes))
        return -1;
    return bytes;
}

static void list_dtypes(unsigned dtypes, char *text, size_t size)
{
    size_t at = 0;

    for (int dt = 0; dt < TD_DT_COUNT; dt++)
        if (dtypes & TD_DT_BIT(dt) && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " or " : "", td_dtype_name((enum td_dtype)dt));
}

static int check_dtype_and_shape(const struct td_op_call *op, const struct td_tensor *t,
                                 const struct td_op_expect *want, struct td_error *err)
{
    char names[160] = "";

    if (!t)
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" is missing", op->kind, want->role);
    list_dtypes(want->dtypes, names, sizeof names);
    if (t->dtype <= TD_DT_NONE || t->dtype >= TD_DT_COUNT || !(want->dtypes & TD_DT_BIT(t->dtype)))
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\": expected %s, found %s", op->kind,
                       want->role, names, td_dtype_name(t->dtype));
    if (t->ndim != want->ndim || t->shape[0] != want->d0 || (want->ndim == 2 && t->shape[1] != want->d1))
        return td_fail(
            err, TD_EINVAL,
            "%s: tensor \"%s\": expected shape [%lld, %lld], found %d dimensions [%lld, %lld]",
            op->kind, want->role, (long long)want->d0, (long long)want->d1, t->ndim,
            (long long)t->shape[0], (long long)(t->ndim > 1 ? t->shape[1] : 1));
    return 0;
}

int td_op_check_tensor(const struct td_op_call *op, const struct td_tensor *t,
                       const struct td_op_expect *want, int64_t *ld, struct td_error *err)
{
    const int64_t cols = want->ndim == 2 ? want->d1 : 1;
    const int rc = check_dtype_and_shape(op, t, want, err);
    int64_t pitch, need;

    if (rc)
        return rc;
    const int64_t elem = (int64_t)td_dtype_size(t->dtype);
    pitch = want->ndim == 2 ? t->strides[0] : 1;
    if (want->ndim == 2 && want->d0 == 1 && ld && pitch < cols)
        pitch = cols; /* the stride of a single row means nothing */
    if ((want->ndim == 2 ? t->strides[1] : t->strides[0]) != 1 || (ld ? pitch < cols : want->d0 > 1 && pitch != cols))
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\": its strides do not describe %s rows",
                       op->kind, want->role, ld ? "separate" : "dense");
    if (__builtin_mul_overflow(want->d0 ? want->d0 - 1 : 0, pitch, &need) || __builtin_add_overflow(need, cols, &need)
        || __builtin_mul_overflow(need, elem, &need))
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\": its size overflows", op->kind, want->role);
    if (t->data && want->d0 && t->size_bytes < (uint64_t)need)
        return td_fail(err, TD_EINVAL,
                       "%s: tensor \"%s\": %zu bytes, its shape and strides need %lld", op->kind,
                       want->role, t->size_bytes, (long long)need);
    if ((uintptr_t)t->data % (uintptr_t)elem)
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" is not aligned to its elements", op->kind, want->role);
    if (ld)
        *ld = pitch;
    return 0;
}

int td_op_check_in(const struct td_op_call *op, const struct td_op_expect *want, int64_t *ld,
                   const void **data, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, want->role);
    const int rc = td_op_check_tensor(op, t, want, ld, err);

    if (rc)
        return rc;
    if (!t->data && want->d0)
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" has no data", op->kind, want->role);
    *data = t->data;
    return 0;
}

int td_op_check_bias(const struct td_op_call *op, int64_t n, const struct td_tensor **bias, struct td_error *err)
{
    const void *data;

    *bias = td_op_in(op, "bias");
    return *bias ? td_op_check_in(op, &(struct td_op_expect){"bias", TD_DT_FLOATS, 1, n, 1}, NULL, &data, err) : 0;
}

/* ---- references ------------------------------------------------------------------------------ */

int td_op_ref_new(struct td_op_ref *ref, int64_t rows, int64_t cols, int64_t inner, bool own_r1, struct td_error *err)
{
    const size_t bytes = (size_t)rows * (size_t)cols * sizeof(double) + 8;
    char what[80];

    memset(ref, 0, sizeof *ref);
    if (rows < 0 || cols < 0 || (cols && rows > TD_OP_REF_MAX / cols))
        return td_fail(err, TD_ELIMIT,
                       "an output of %lld x %lld is beyond what a reference is made for",
                       (long long)rows, (long long)cols);
    snprintf(what, sizeof what, "a reference of %lld x %lld", (long long)rows, (long long)cols);
    if (td_memory_room(bytes * (own_r1 ? 3 : 2), what, err))
        return TD_ENOMEM;
    *ref = (struct td_op_ref){.rows = rows, .cols = cols, .inner = inner, .r0 = malloc(bytes), .mag = malloc(bytes)};
    ref->r1 = own_r1 ? malloc(bytes) : ref->r0;
    if (ref->r0 && ref->r1 && ref->mag)
        return 0;
    td_op_ref_release(ref);
    return td_fail(err, TD_ENOMEM, "out of memory for a reference of %lld x %lld", (long long)rows, (long long)cols);
}

static int add_zeros(const struct td_op_ref *ref, double **to, struct td_error *err)
{
    const size_t count = (size_t)ref->rows * (size_t)ref->cols + 1;

    if (td_memory_room(count * sizeof **to, "a part of a reference", err))
        return TD_ENOMEM;
    *to = calloc(count, sizeof **to);
    return *to ? 0 : td_fail(err, TD_ENOMEM, "out of memory for a part of a reference");
}

int td_op_ref_new_slack(struct td_op_ref *ref, struct td_error *err)
{
    return add_zeros(ref, &ref->slack, err);
}

int td_op_ref_new_ordered(struct td_op_ref *ref, struct td_error *err)
{
    const int rc = add_zeros(ref, &ref->slack, err);

    return rc ? rc : add_zeros(ref, &ref->ordered, err);
}

double td_op_rounding_error(enum td_dtype dtype, double x)
{
    switch (dtype) {
    case TD_DT_F16: return 0x1p-11 * fabs(x) + 0x1p-25; /* half the smallest subnormal */
    case TD_DT_BF16: return 0x1p-8 * fabs(x);
    default: return 0x1p-24 * fabs(x);
    }
}

void td_op_ref_allow_rounding(struct td_op_ref *ref, enum td_dtype dtype)
{
    for (int64_t e = 0; e < ref->rows * ref->cols; e++)
        ref->slack[e] += td_op_rounding_error(dtype, ref->r1[e]);
}

void td_op_ref_add_bias(struct td_op_ref *ref, const struct td_tensor *bias)
{
    for (int64_t e = 0; bias && e < ref->rows * ref->cols; e++) {
        const double b = td_dtype_get(bias->dtype, bias->data, (size_t)(e % ref->cols));

        ref->r0[e] += b;
        if (ref->r1 != ref->r0)
            ref->r1[e] += b;
        if (ref->ordered)
            ref->ordered[e] += b;
        ref->mag[e] += fabs(b);
    }
}
