/* moe_gemm_c.c - portable C for products with the experts of a mixture: a strip of an expert's columns is dequantised and
 * meets the rows of A that were routed to it, in float.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/dot_f32.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/moe_gemm_op.h"
#include "kernels/ops/op_variant.h"

#define STRIP 16

/* One allocation: a strip in double, twice, and the row that is converted; the experts' first slots; the
 * strip and all of A in float; the slots. */
struct plan { double *row, *exact, *rounded; int64_t *first; float *w, *a; int32_t *slot; };

static size_t doubles(const struct td_moe_op *x)
{
    return (size_t)x->first.k * (1 + 2 * STRIP);
}

static size_t floats(const struct td_moe_op *x)
{
    return (size_t)x->first.k * (STRIP + (size_t)x->first.m);
}

static size_t moe_gemm_work_bytes(const struct td_op_call *op)
{
    struct td_moe_op x;

    if (td_moe_op_of(op, &x, NULL))
        return 0;
    return doubles(&x) * sizeof(double) + (size_t)(x.experts + 1) * sizeof(int64_t) + floats(&x) * sizeof(float) +
           (size_t)x.slots * sizeof(int32_t);
}

static struct plan plan_of(const struct td_moe_op *x, void *work)
{
    struct plan p = {.row = work};

    p.exact = p.row + x->first.k;
    p.rounded = p.exact + STRIP * x->first.k;
    p.first = (int64_t *)(p.row + doubles(x));
    p.w = (float *)(p.first + x->experts + 1);
    p.a = p.w + STRIP * x->first.k;
    p.slot = (int32_t *)(p.w + floats(x));
    return p;
}

static void multiply_strip(const struct td_moe_op *x, const struct plan *p, int64_t e, int64_t n0, int64_t cols)
{
    const struct td_gptq_op o = td_moe_expert(x, e);

    td_gptq_op_columns(&o, n0, cols, p->exact, p->rounded);
    for (int64_t j = 0; j < cols * o.k; j++)
        p->w[j] = (float)p->rounded[j];
    for (int64_t n = n0; n < n0 + cols; n++)
        for (int64_t i = p->first[e]; i < p->first[e + 1]; i++) {
            const int64_t slot = p->slot[i];
            const float sum = td_dot_f32(p->a + slot / x->top_k * o.k, p->w + (n - n0) * o.k, o.k) + (float)td_moe_bias(x, e, n);

            td_store_f32(o.dtype, o.c, slot * o.ldc + n, sum * (float)td_moe_factor_rounded(x, slot));
        }
}

static void run_moe_gemm(const struct td_op_call *op, void *work)
{
    struct td_moe_op x;

    if (td_moe_op_of(op, &x, NULL))
        return;
    const struct plan p = plan_of(&x, work);

    td_moe_sort_slots(&x, p.first, p.slot);
    for (int64_t i = 0; i < x.first.m; i++) {
        td_gptq_op_row(&x.first, i, p.row, p.row);
        for (int64_t j = 0; j < x.first.k; j++)
            p.a[i * x.first.k + j] = (float)p.row[j];
    }
    for (int64_t e = 0; e < x.experts; e++)
        for (int64_t n = 0; p.first[e] < p.first[e + 1] && n < x.first.n; n += STRIP)
            multiply_strip(&x, &p, e, n, x.first.n - n < STRIP ? x.first.n - n : STRIP);
}

const struct td_op_variant td_moe_gemm_c = {"moe_gemm", "c", TD_CPU_ANY, moe_gemm_work_bytes, run_moe_gemm};
