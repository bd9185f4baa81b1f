/* dequantize_kind.c - ops of kind "dequantize": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A weight of 4 or 8 bits becomes floats: W[r][j] = (q[r][j] - zero) * scale, rounded once.
 *   qweight, qzeros, scales : as those of gptq_gemm, of k rows; without act-order
 *   c : [m, n] F16 or BF16: the rows 0, every, 2 every ... of W, m = k / every rounded up
 *   attributes m n k bits group_size (> 0), zero_offset (default 1), every (default 1)
 * Source: vLLM 0.26, csrc/libtorch_stable/quantization/awq/gemm_kernels.cu (dequantize_weights). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/beside_op.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/op_kind.h"

#define STRIP 16                         /* columns that td_gptq_op_columns() takes at most */

struct dequantize { struct td_gptq_op w; int64_t every; };

static int read_weight(const struct td_op_call *op, struct td_gptq_op *w, struct td_error *err)
{
    const unsigned words = TD_DT_BIT(TD_DT_I32) | TD_DT_BIT(TD_DT_U32);
    const int64_t pack = 32 / w->bits;
    const void *qweight, *qzeros;
    int rc;

    if ((rc = td_op_check_in(op, &(struct td_op_expect){"qweight", words, 2, w->k / pack, w->n}, NULL, &qweight, err)) ||
        (rc = td_op_check_in(op, &(struct td_op_expect){"qzeros", words, 2, w->groups, w->n / pack}, NULL, &qzeros, err)) ||
        (rc = td_op_check_in(op, &(struct td_op_expect){"scales", TD_DT_FLOATS, 2, w->groups, w->n}, NULL, &w->scales, err)))
        return rc;
    w->qweight = qweight, w->qzeros = qzeros;
    w->scales_dtype = td_op_in(op, "scales")->dtype;
    return td_gptq_op_check_weights(op, w, err);
}

static int read_op(const struct td_op_call *op, struct dequantize *x, struct td_error *err)
{
    static const char *const roles[] = {"qweight", "qzeros", "scales", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_beside_check_known(op, roles, err)) || (rc = td_gptq_op_read_sizes(op, &x->w, err)) ||
        (rc = td_op_check_attr(op, "every", 1, 1, &x->every, err)))
        return rc;
    if (td_op_attr(op, "act_order", 0))
        return td_fail(err, TD_EUNSUPPORTED, "%s: this version does not know act-order here", op->kind);
    if (x->w.m != (x->w.k + x->every - 1) / x->every)
        return td_fail(err, TD_EINVAL, "%s: every %lldth of %lld rows are not %lld", op->kind, (long long)x->every, (long long)x->w.k, (long long)x->w.m);
    if ((rc = read_weight(op, &x->w, err)))
        return rc;
    return td_beside_check_out(op, TD_DT_BIT(TD_DT_F16) | TD_DT_BIT(TD_DT_BF16), x->w.m, x->w.n, err);
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct dequantize x;

    return read_op(op, &x, err);
}

static void compute_columns(const struct dequantize *x, int64_t n0, int64_t cols, double *strip, struct td_op_ref *ref)
{
    td_gptq_op_columns(&x->w, n0, cols, strip, strip);
    for (int64_t i = 0; i < x->w.m; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double r = strip[j * x->w.k + i * x->every];

            ref->r0[i * x->w.n + n0 + j] = r;
            ref->mag[i * x->w.n + n0 + j] = fabs(r);
        }
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct dequantize x;
    double *strip;
    int rc = read_op(op, &x, err);

    memset(ref, 0, sizeof *ref);
    if (rc || (rc = td_op_ref_new(ref, x.w.m, x.w.n, 1, false, err)))
        return rc;
    if (!(strip = malloc((size_t)(x.w.k * STRIP) * sizeof *strip))) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "%s: out of memory for the reference", op->kind);
    }
    for (int64_t n0 = 0; n0 < x.w.n; n0 += STRIP)
        compute_columns(&x, n0, x.w.n - n0 < STRIP ? x.w.n - n0 : STRIP, strip, ref);
    free(strip);
    return 0;
}

const struct td_op_kind td_dequantize_kind = {"dequantize", check, compute_reference};
