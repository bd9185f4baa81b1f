/* gemm_c.c - portable C: rows of A and of W widened to float, one dot product an element.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/dot_f32.h"
#include "kernels/ops/gemm_op.h"
#include "kernels/ops/op_variant.h"

static size_t gemm_work_bytes(const struct td_op_call *op)
{
    struct td_gemm x;

    return td_gemm_of(op, &x, NULL) ? 0 : (size_t)(x.m + 1) * (size_t)x.k * sizeof(float);
}

static void widen_row(enum td_dtype dt, const unsigned char *row, int64_t k, float *to)
{
    for (int64_t j = 0; j < k; j++)
        to[j] = (float)td_dtype_get(dt, row, (size_t)j);
}

static void run_gemm(const struct td_op_call *op, void *work)
{
    struct td_gemm x;
    float *w = work, *a;

    if (td_gemm_of(op, &x, NULL))
        return;
    a = w + x.k;
    for (int64_t i = 0; i < x.m; i++)
        widen_row(x.a_dtype, x.a + (size_t)(i * x.lda) * td_dtype_size(x.a_dtype), x.k, a + i * x.k);
    for (int64_t n = 0; n < x.n; n++) {
        const float bias = x.bias ? (float)td_dtype_get(x.bias->dtype, x.bias->data, (size_t)n) : 0;

        widen_row(x.w_dtype, x.w + (size_t)(n * x.ldw) * td_dtype_size(x.w_dtype), x.k, w);
        for (int64_t i = 0; i < x.m; i++)
            td_store_f32(x.c_dtype, x.c, i * x.ldc + n, td_dot_f32(a + i * x.k, w, x.k) + bias);
    }
}

const struct td_op_variant td_gemm_c = {"gemm", "c", TD_CPU_ANY, gemm_work_bytes, run_gemm};
