/* ggml_mul_mat_op.c - what a recorded "ggml_mul_mat" means: its roles and its rules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/ggml_mul_mat_op.h"

#include <string.h>

#include "kernels/ops/op_check.h"

#define KIND "ggml_mul_mat"
#define MAX_STRIDE (INT64_C(1) << 48) /* no memory is larger; also of a dimension of one element, whose stride is not used */

struct dims { int64_t shape[4], stride[4]; }; /* [0] outermost; missing ones are 1 */

static int read_dims(const struct td_tensor *t, const char *role, struct dims *d, struct td_error *err)
{
    const int missing = 4 - t->ndim;
    int64_t need;

    if (t->ndim < 2 || t->ndim > 4)
        return td_fail(err, TD_EINVAL, KIND ": tensor \"%s\" has %d dimensions, expected 2 to 4", role, t->ndim);
    need = td_op_span_bytes(t);
    if (t->shape[t->ndim - 1] > 1 && t->strides[t->ndim - 1] != 1)
        return td_fail(err, TD_EUNSUPPORTED,
                       KIND ": the elements of a row of \"%s\" lie %lld apart; this version takes "
                            "rows without gaps",
                       role, (long long)t->strides[t->ndim - 1]);
    if (need < 0)
        return td_fail(err, TD_EINVAL, KIND ": tensor \"%s\": its shape and strides make no sense", role);
    if (t->data && t->size_bytes < (uint64_t)need)
        return td_fail(err, TD_EINVAL,
                       KIND ": tensor \"%s\": %zu bytes, its shape and strides need %lld", role,
                       t->size_bytes, (long long)need);
    for (int i = 0; i < 4; i++) {
        d->shape[i] = i < missing ? 1 : t->shape[i - missing];
        d->stride[i] = i < missing ? 0 : t->strides[i - missing];
        if (d->shape[i] > INT32_MAX || d->stride[i] < 0 || d->stride[i] > MAX_STRIDE)
            return td_fail(err, TD_EINVAL, KIND ": tensor \"%s\" is larger than any real one", role);
    }
    return 0;
}

static int check_dtypes(const struct td_op_call *op, const struct td_tensor *a, const struct td_tensor *w, struct td_error *err)
{
    if (!a || !w)
        return td_fail(err, TD_EINVAL, KIND ": tensor \"%s\" is missing", a ? "w" : "a");
    if (!a->data || !w->data)
        return td_fail(err, TD_EINVAL, KIND ": tensor \"%s\" has no data", a->data ? "w" : "a");
    if (a->dtype != TD_DT_F32 || op->out.dtype != TD_DT_F32)
        return td_fail(err, TD_EUNSUPPORTED, KIND ": A is %s and C is %s; this version takes F32 only", td_dtype_name(a->dtype),
                       td_dtype_name(op->out.dtype));
    if (!td_ggml_is_weight(w->dtype))
        return td_fail(err, TD_EUNSUPPORTED, KIND ": weights of dtype %s are not supported", td_dtype_name(w->dtype));
    if ((uintptr_t)a->data % sizeof(float) || (uintptr_t)op->out.data % sizeof(float))
        return td_fail(err, TD_EINVAL, KIND ": tensor \"%s\" is not aligned to its elements",
                       (uintptr_t)a->data % sizeof(float) ? "a" : "c");
    return 0;
}

static int check_shapes(const struct td_ggml_mul_mat *x, const struct dims *a, const struct dims *w,
                        const struct dims *c, struct td_error *err)
{
    const int block = td_dtype_block(x->w_dtype), act_block = td_ggml_act_block(x->act);

    if (a->shape[2] != x->m || a->shape[3] != x->k || w->shape[2] != x->n || w->shape[3] * block != x->k)
        return td_fail(
            err, TD_EINVAL,
            KIND
            ": A [%lld, %lld] and W [%lld, %lld blocks of %d] do not fit m %lld, n %lld, k %lld",
            (long long)a->shape[2], (long long)a->shape[3], (long long)w->shape[2],
            (long long)w->shape[3], block, (long long)x->m, (long long)x->n, (long long)x->k);
    if (x->k % act_block)
        return td_fail(err, TD_EINVAL, KIND ": k %lld is no multiple of %d, a block of %s",
                       (long long)x->k, act_block, td_ggml_act_name(x->act));
    if (x->w2 < 1 || x->w3 < 1 || x->b2 % x->w2 || x->b3 % x->w3)
        return td_fail(err, TD_EINVAL,
                       KIND
                       ": %lld x %lld batches of A do not spread over %lld x %lld matrices of W",
                       (long long)x->b3, (long long)x->b2, (long long)x->w3, (long long)x->w2);
    if (c->shape[0] != x->b3 || c->shape[1] != x->b2 || c->shape[2] != x->m || c->shape[3] != x->n)
        return td_fail(err, TD_EINVAL,
                       KIND ": C is [%lld, %lld, %lld, %lld], expected [%lld, %lld, %lld, %lld]",
                       (long long)c->shape[0], (long long)c->shape[1], (long long)c->shape[2],
                       (long long)c->shape[3], (long long)x->b3, (long long)x->b2, (long long)x->m,
                       (long long)x->n);
    return 0;
}

static void set_strides(struct td_ggml_mul_mat *x, const struct dims *a, const struct dims *w, const struct dims *c)
{
    const int64_t size = (int64_t)td_dtype_size(x->w_dtype);

    x->a_row = a->stride[2], x->a_b2 = a->stride[1], x->a_b3 = a->stride[0];
    x->w_row = w->stride[2] * size, x->w_b2 = w->stride[1] * size, x->w_b3 = w->stride[0] * size;
    x->c_row = c->stride[2], x->c_b2 = c->stride[1], x->c_b3 = c->stride[0];
}

int td_ggml_mul_mat_of(const struct td_op_call *op, struct td_ggml_mul_mat *x, struct td_error *err)
{
    const struct td_tensor *a = td_op_in(op, "a"), *w = td_op_in(op, "w");
    struct dims da, dw, dc;
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err))
        || (rc = td_op_check_attr(op, "k", 1, INT64_MIN, &x->k, err)) || (rc = check_dtypes(op, a, w, err))
        || (rc = read_dims(a, "a", &da, err)) || (rc = read_dims(w, "w", &dw, err)) || (rc = read_dims(&op->out, "c", &dc, err)))
        return rc;
    x->act = td_ggml_act_parse(op->act_rounding);
    if (x->act == TD_ACT_UNKNOWN)
        return td_fail(err, TD_EUNSUPPORTED, KIND ": the rounding of activations \"%s\" is not known", op->act_rounding);
    x->w_dtype = w->dtype;
    x->b2 = da.shape[1], x->b3 = da.shape[0];
    x->w2 = dw.shape[1], x->w3 = dw.shape[0];
    if ((rc = check_shapes(x, &da, &dw, &dc, err)))
        return rc;
    set_strides(x, &da, &dw, &dc);
    x->a = a->data;
    x->w = w->data;
    x->c = op->out.data;
    return 0;
}
