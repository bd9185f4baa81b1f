/* gptq_gemm_op.c - what a recorded "gptq_gemm" means: its roles, its rules, its right answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gptq_gemm_op.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "model/gptq.h"

static int attr_int(const struct td_op_call *op, const char *name, int64_t min, int64_t missing, int32_t *out, struct td_error *err)
{
    const int64_t v = td_op_attr(op, name, missing);

    if (v < min || v > INT32_MAX)
        return td_fail(err, TD_EINVAL, "gptq_gemm: attribute %s is %s", name, v == INT64_MIN ? "missing" : "out of range");
    *out = (int32_t)v;
    return 0;
}

/* t : [d0, d1] (ndim 1: d0 rows of one), last dimension dense, rows `*ld` apart; ld NULL: dense throughout. */
static int check_tensor(const struct td_tensor *t, const char *role, enum td_dtype dtype, int ndim, int64_t d0, int64_t d1,
                        int64_t *ld, struct td_error *err)
{
    const int64_t elem = (int64_t)td_dtype_size(dtype);
    int64_t pitch, need;

    if (!t)
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\" is missing", role);
    if (t->dtype != dtype && !(dtype == TD_DT_I32 && t->dtype == TD_DT_U32))
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\": expected %s, found %s", role, td_dtype_name(dtype), td_dtype_name(t->dtype));
    if (t->ndim != ndim || t->shape[0] != d0 || (ndim == 2 && t->shape[1] != d1))
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\": expected shape [%lld, %lld], found %d dimensions [%lld, %lld]", role,
                       (long long)d0, (long long)d1, t->ndim, (long long)t->shape[0], (long long)(t->ndim > 1 ? t->shape[1] : 1));
    pitch = ndim == 2 ? t->strides[0] : 1;
    if (ndim == 2 && d0 == 1 && ld && pitch < d1)
        pitch = d1; /* the stride of a single row means nothing */
    if ((ndim == 2 ? t->strides[1] : t->strides[0]) != 1 || (ld ? pitch < d1 : d0 > 1 && pitch != d1))
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\": its strides do not describe %s rows", role, ld ? "separate" : "dense");
    if (__builtin_mul_overflow(d0 ? d0 - 1 : 0, pitch, &need) || __builtin_add_overflow(need, d1, &need)
        || __builtin_mul_overflow(need, elem, &need))
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\": its size overflows", role);
    if (t->data && d0 && t->size_bytes < (uint64_t)need)
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\": %zu bytes, its shape and strides need %lld", role, t->size_bytes, (long long)need);
    if ((uintptr_t)t->data % (uintptr_t)elem)
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\" is not aligned to its elements", role);
    if (ld)
        *ld = pitch;
    return 0;
}

static int check_in(const struct td_op_call *op, const char *role, enum td_dtype dtype, int ndim, int64_t d0, int64_t d1, int64_t *ld,
                    const void **data, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, role);
    const int rc = check_tensor(t, role, dtype, ndim, d0, d1, ld, err);

    if (rc)
        return rc;
    if (!t->data && d0)
        return td_fail(err, TD_EINVAL, "gptq_gemm: tensor \"%s\" has no data", role);
    *data = t->data;
    return 0;
}

int td_gptq_gemm_args_of(const struct td_op_call *op, struct td_gptq_gemm_args *x, struct td_error *err)
{
    const void *a = NULL, *qw = NULL, *qz = NULL, *sc = NULL, *gi = NULL;
    struct td_gptq_weight w;
    int rc;

    memset(x, 0, sizeof *x);
    x->struct_size = sizeof *x;
    if ((rc = attr_int(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = attr_int(op, "n", 1, INT64_MIN, &x->n, err))
        || (rc = attr_int(op, "k", 1, INT64_MIN, &x->k, err)) || (rc = attr_int(op, "bits", 1, INT64_MIN, &x->bits, err))
        || (rc = attr_int(op, "group_size", 1, INT64_MIN, &x->group_size, err))
        || (rc = attr_int(op, "zero_offset", 0, 1, &x->zero_offset, err)))
        return rc;
    if (td_gptq_check_sizes(x->bits, x->group_size, x->k, x->n, err)) {
        td_fail_at(err, "gptq_gemm");
        return TD_EINVAL;
    }
    const int64_t groups = x->k / x->group_size, pack = 32 / x->bits;

    if ((rc = check_in(op, "a", TD_DT_F16, 2, x->m, x->k, &x->lda, &a, err))
        || (rc = check_in(op, "qweight", TD_DT_I32, 2, x->k / pack, x->n, NULL, &qw, err))
        || (rc = check_in(op, "qzeros", TD_DT_I32, 2, groups, x->n / pack, NULL, &qz, err))
        || (rc = check_in(op, "scales", TD_DT_F16, 2, groups, x->n, NULL, &sc, err))
        || (rc = check_tensor(&op->out, "c", TD_DT_F16, 2, x->m, x->n, &x->ldc, err)))
        return rc;
    if (td_op_attr(op, "act_order", 0) || td_op_in(op, "g_idx"))
        if ((rc = check_in(op, "g_idx", TD_DT_I32, 1, x->k, 1, NULL, &gi, err)))
            return rc;
    x->a = a;
    x->qweight = qw;
    x->qzeros = qz;
    x->scales = sc;
    x->g_idx = gi;
    x->c = op->out.data;
    w = (struct td_gptq_weight){x->bits, x->group_size, x->zero_offset, x->k, x->n, groups, qw, qz, sc, gi, NULL};
    if (td_gptq_check(&w, err)) {
        td_fail_at(err, "gptq_gemm");
        return TD_EINVAL;
    }
    return 0;
}

const char *td_kernel_status_text(int status)
{
    switch (status) {
    case TD_KERNEL_OK: return "done";
    case TD_KERNEL_EINVAL: return "it calls the arguments invalid (TD_KERNEL_EINVAL)";
    case TD_KERNEL_EUNSUPPORTED: return "it does not support these arguments (TD_KERNEL_EUNSUPPORTED)";
    case TD_KERNEL_ENOMEM: return "it ran out of memory (TD_KERNEL_ENOMEM)";
    default: return "it returned a status that td_gptq.h does not know";
    }
}

/* ---- the kind -------------------------------------------------------------------------------------------------- */

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct td_gptq_gemm_args x;

    return td_gptq_gemm_args_of(op, &x, err);
}

static int reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_gptq_gemm_args x;
    size_t bytes;
    int rc = td_gptq_gemm_args_of(op, &x, err);

    memset(ref, 0, sizeof *ref);
    if (rc)
        return rc;
    bytes = (size_t)x.m * (size_t)x.n * sizeof(double);
    ref->rows = x.m;
    ref->cols = x.n;
    ref->inner = x.k;
    ref->r0 = ref->r1 = malloc(bytes ? bytes : 1); /* the format rounds no activations: one array serves as both */
    ref->mag = malloc(bytes ? bytes : 1);
    if (!ref->r0 || !ref->mag || td_gptq_gemm_ref(&x, ref->r0, ref->mag)) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "gptq_gemm: out of memory for the reference");
    }
    return 0;
}

const struct td_op_kind td_gptq_gemm_kind = {"gptq_gemm", check, reference};
