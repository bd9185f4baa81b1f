/* gptq_any_c.c - portable C for every form of gptq_gemm: a strip of columns is dequantised and meets all rows of A, in float.
 * SPDX-License-Identifier: Apache-2.0
 *
 * (q - zero) * scale is exact in float for scales of 16 bits; an activation of uint8-token is (q - 128) * scale, rounded once. */
#include "kernels/ops/dot_f32.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/op_variant.h"

#define STRIP 16

/* One allocation: a row and a strip in double, twice, then the strip and A in float. */
struct plan { double *row, *exact, *rounded; float *w, *a; };

static size_t doubles(const struct td_gptq_op *x)
{
    return (size_t)x->k * (2 + 2 * STRIP);
}

static size_t gptq_any_work_bytes(const struct td_op_call *op)
{
    struct td_gptq_op x;

    if (td_gptq_op_of(op, &x, NULL))
        return 0;
    return doubles(&x) * sizeof(double) + (size_t)x.k * (STRIP + (size_t)x.m) * sizeof(float);
}

static struct plan plan_of(const struct td_gptq_op *x, void *work)
{
    struct plan p = {.row = work};

    p.exact = p.row + 2 * x->k;
    p.rounded = p.exact + STRIP * x->k;
    p.w = (float *)(p.row + doubles(x));
    p.a = p.w + STRIP * x->k;
    return p;
}

static void multiply_strip(const struct td_gptq_op *x, const struct plan *p, int64_t n0, int64_t cols)
{
    td_gptq_op_columns(x, n0, cols, p->exact, p->rounded);
    for (int64_t j = 0; j < cols * x->k; j++)
        p->w[j] = (float)p->rounded[j];
    for (int64_t n = n0; n < n0 + cols; n++) {
        const float bias = x->bias ? (float)td_dtype_get(x->bias->dtype, x->bias->data, (size_t)n) : 0;

        for (int64_t i = 0; i < x->m; i++)
            td_store_f32(x->dtype, x->c, i * x->ldc + n, td_dot_f32(p->a + i * x->k, p->w + (n - n0) * x->k, x->k) + bias);
    }
}

static void run_gptq_any(const struct td_op_call *op, void *work)
{
    struct td_gptq_op x;

    if (td_gptq_op_of(op, &x, NULL))
        return;
    const struct plan p = plan_of(&x, work);

    for (int64_t i = 0; i < x.m; i++) {
        td_gptq_op_row(&x, i, p.row, p.row + x.k);
        for (int64_t j = 0; j < x.k; j++)
            p.a[i * x.k + j] = (float)p.row[x.k + j];
    }
    for (int64_t n = 0; n < x.n; n += STRIP)
        multiply_strip(&x, &p, n, x.n - n < STRIP ? x.n - n : STRIP);
}

const struct td_op_variant td_gptq_any_c = {"gptq_gemm", "c", TD_CPU_ANY, gptq_any_work_bytes, run_gptq_any};
