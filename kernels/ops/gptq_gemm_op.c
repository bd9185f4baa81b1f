/* gptq_gemm_op.c - what a recorded "gptq_gemm" means: its roles and its rules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gptq_gemm_op.h"

#include <string.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/op_rounding.h"
#include "model/gptq.h"

int td_gptq_op_read_sizes(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err)
{
    int64_t bits, group, offset;
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) ||
        (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) ||
        (rc = td_op_check_attr(op, "k", 1, INT64_MIN, &x->k, err)) ||
        (rc = td_op_check_attr(op, "bits", 1, INT64_MIN, &bits, err)) ||
        (rc = td_op_check_attr(op, "group_size", 1, INT64_MIN, &group, err)) ||
        (rc = td_op_check_attr(op, "zero_offset", 0, 1, &offset, err)))
        return rc;
    if (td_gptq_check_sizes((int)bits, group, x->k, x->n, err)) {
        td_fail_at(err, "%s", op->kind);
        return TD_EINVAL;
    }
    x->bits = (int)bits;
    x->group_size = (int)group;
    x->zero_offset = (int)offset;
    x->groups = x->k / group;
    return 0;
}

int td_gptq_op_read_rounding(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err)
{
    static const char *const names[] = {"none",       "uint8-token", "weight-bf16",
                                        "weight-f16", "zero-bf16",   "zero-f16"};
    struct td_op_rounding r;
    const bool read = td_op_rounding_read(op->act_rounding, &r) && !r.sums_cut;

    x->bias_after = r.bias_after && td_op_in(op, "bias");
    for (x->rounding = TD_GPTQ_NONE; read && x->rounding < TD_GPTQ_UNKNOWN; x->rounding++)
        if (!strcmp(r.factors, names[x->rounding]))
            return 0;
    return td_fail(err, TD_EUNSUPPORTED, "%s: the rounding of activations \"%s\" is not known", op->kind, op->act_rounding);
}

static int read_tensors(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err)
{
    const unsigned words = TD_DT_BIT(TD_DT_I32) | TD_DT_BIT(TD_DT_U32), halves = TD_DT_BIT(TD_DT_F16) | TD_DT_BIT(TD_DT_BF16);
    const int64_t pack = 32 / x->bits;
    const void *qw, *qz, *gi = NULL;
    int rc;

    if ((rc = td_op_check_in(op, &(struct td_op_expect){"a", halves, 2, x->m, x->k}, &x->lda, &x->a, err))
        || (rc = td_op_check_in(op, &(struct td_op_expect){"qweight", words, 2, x->k / pack, x->n}, NULL, &qw, err))
        || (rc = td_op_check_in(op, &(struct td_op_expect){"qzeros", words, 2, x->groups, x->n / pack}, NULL, &qz, err))
        || (rc = td_op_check_in(op, &(struct td_op_expect){"scales", TD_DT_FLOATS, 2, x->groups, x->n}, NULL, &x->scales, err))
        || (rc = td_op_check_bias(op, x->n, &x->bias, err)))
        return rc;
    x->dtype = td_op_in(op, "a")->dtype;
    x->scales_dtype = td_op_in(op, "scales")->dtype;
    if ((rc = td_op_check_tensor(op, &op->out, &(struct td_op_expect){"c", TD_DT_BIT(x->dtype), 2, x->m, x->n}, &x->ldc, err)))
        return rc;
    if (td_op_attr(op, "act_order", 0) || td_op_in(op, "g_idx"))
        if ((rc = td_op_check_in(op, &(struct td_op_expect){"g_idx", TD_DT_BIT(TD_DT_I32), 1, x->k, 1}, NULL, &gi, err)))
            return rc;
    x->qweight = qw;
    x->qzeros = qz;
    x->g_idx = gi;
    x->c = op->out.data;
    return 0;
}

int td_gptq_op_check_weights(const struct td_op_call *op, const struct td_gptq_op *x, struct td_error *err)
{
    /* checks g_idx and that pointers are there; the type of scales does not matter to it */
    if (td_gptq_check(&(struct td_gptq_weight){.bits = x->bits,
                                               .group_size = x->group_size,
                                               .zero_offset = x->zero_offset,
                                               .k = x->k,
                                               .n = x->n,
                                               .groups = x->groups,
                                               .qweight = x->qweight,
                                               .qzeros = x->qzeros,
                                               .scales = x->scales,
                                               .g_idx = x->g_idx},
                      err)) {
        td_fail_at(err, "%s", op->kind);
        return TD_EINVAL;
    }
    return 0;
}

int td_gptq_op_of(const struct td_op_call *op, struct td_gptq_op *x, struct td_error *err)
{
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_gptq_op_read_sizes(op, x, err)) || (rc = read_tensors(op, x, err)) ||
        (rc = td_gptq_op_read_rounding(op, x, err)))
        return rc;
    return td_gptq_op_check_weights(op, x, err);
}

bool td_gptq_rounds_weights(enum td_gptq_rounding rounding)
{
    return rounding >= TD_GPTQ_WEIGHT_BF16 && rounding <= TD_GPTQ_ZERO_F16;
}

bool td_gptq_op_is_plain(const struct td_gptq_op *x)
{
    return x->dtype == TD_DT_F16 && x->scales_dtype == TD_DT_F16 && !x->bias && x->rounding == TD_GPTQ_NONE;
}

void td_gptq_op_args(const struct td_gptq_op *o, struct td_gptq_gemm_args *x)
{
    *x = (struct td_gptq_gemm_args){sizeof *x, (int32_t)o->m, (int32_t)o->n,  (int32_t)o->k,
                                    o->bits,   o->group_size, o->zero_offset, 0,
                                    o->a,      o->lda,        o->qweight,     o->qzeros,
                                    o->scales, o->g_idx,      o->c,           o->ldc};
}

static int args_of_op(const struct td_op_call *op, bool exact, struct td_gptq_gemm_args *x, struct td_error *err)
{
    struct td_gptq_op o;
    const int rc = td_gptq_op_of(op, &o, err);

    memset(x, 0, sizeof *x);
    if (rc)
        return rc;
    if (exact && td_gptq_rounds_weights(o.rounding))
        o.rounding = TD_GPTQ_NONE;
    if (!td_gptq_op_is_plain(&o))
        return td_fail(err, TD_EUNSUPPORTED,
                       "td_gptq_gemm takes F16 without a bias, this op has %s%s, scales of %s, and "
                       "rounds \"%s\"",
                       td_dtype_name(o.dtype), o.bias ? " with a bias" : "",
                       td_dtype_name(o.scales_dtype),
                       op->act_rounding[0] ? op->act_rounding : "none");
    td_gptq_op_args(&o, x);
    return 0;
}

int td_gptq_gemm_args_of(const struct td_op_call *op, struct td_gptq_gemm_args *x, struct td_error *err)
{
    return args_of_op(op, false, x, err);
}

int td_gptq_gemm_args_exact(const struct td_op_call *op, struct td_gptq_gemm_args *x, struct td_error *err)
{
    return args_of_op(op, true, x, err);
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
