/* ggml_mul_mat_c.c - portable C: a row of weights is dequantised once and meets all rows of A, in
 * float. SPDX-License-Identifier: Apache-2.0
 *
 * As ggml's kernels do, the minima of a format are multiplied apart, with the sums that the
 * rounding of the activations gives; they stand behind each row as further columns. d * q is exact
 * in float but for Q6_K (25 bits) and q8_K, where it is rounded once. */
#include "kernels/ops/dot_f32.h"
#include "kernels/ops/ggml_mul_mat_op.h"
#include "kernels/ops/op_variant.h"

/* One allocation: a row in double as the model takes it apart, the same in float, and all rows of A in float. */
struct plan { int64_t step, width, rows; double *wide; float *w, *a; };

/* Without `work`: the sizes alone. */
static struct plan plan_of(const struct td_ggml_mul_mat *x, void *work)
{
    struct plan p = {.step = td_ggml_min_step(x->w_dtype), .rows = x->b3 * x->b2 * x->m};

    p.width = x->k + (p.step ? x->k / p.step : 0);
    if (!work)
        return p;
    p.wide = work;
    p.w = (float *)(p.wide + p.width);
    p.a = p.w + p.width;
    return p;
}

static size_t mul_mat_work_bytes(const struct td_op_call *op)
{
    struct td_ggml_mul_mat x;

    if (td_ggml_mul_mat_of(op, &x, NULL))
        return 0;
    const struct plan p = plan_of(&x, NULL);

    return (size_t)p.width * (sizeof(double) + sizeof(float)) + (size_t)p.rows * (size_t)p.width * sizeof(float);
}

static void narrow_row(const double *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i];
}

static void round_rows(const struct td_ggml_mul_mat *x, const struct plan *p)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const int64_t batch = r / x->m;

        td_ggml_round_row(x->act, td_ggml_mul_mat_a(x, batch / x->b2, batch % x->b2, r % x->m),
                          x->k, p->wide, (int)p->step, p->wide + x->k);
        narrow_row(p->wide, p->width, p->a + r * p->width);
    }
}

/* Row n of matrix (j3, j2) of W against the rows of batch (i3, i2) of A. */
static void multiply_batch(const struct td_ggml_mul_mat *x, const struct plan *p, int64_t i3, int64_t i2, int64_t n)
{
    for (int64_t i = 0; i < x->m; i++)
        x->c[i3 * x->c_b3 + i2 * x->c_b2 + i * x->c_row + n] =
            td_dot_f32(p->w, p->a + ((i3 * x->b2 + i2) * x->m + i) * p->width, p->width);
}

static void multiply_weight_row(const struct td_ggml_mul_mat *x, const struct plan *p, int64_t j3, int64_t j2, int64_t n)
{
    const int64_t wide = x->b2 / x->w2, high = x->b3 / x->w3;

    td_ggml_split_row(x->w_dtype, td_ggml_mul_mat_w(x, j3, j2, n), x->k, p->wide, p->wide + x->k);
    narrow_row(p->wide, p->width, p->w);
    for (int64_t i3 = j3 * high; i3 < (j3 + 1) * high; i3++)
        for (int64_t i2 = j2 * wide; i2 < (j2 + 1) * wide; i2++)
            multiply_batch(x, p, i3, i2, n);
}

static void run_mul_mat(const struct td_op_call *op, void *work)
{
    struct td_ggml_mul_mat x;

    if (td_ggml_mul_mat_of(op, &x, NULL) || !x.m)
        return;
    const struct plan p = plan_of(&x, work);

    round_rows(&x, &p);
    for (int64_t j3 = 0; j3 < x.w3; j3++)
        for (int64_t j2 = 0; j2 < x.w2; j2++)
            for (int64_t n = 0; n < x.n; n++)
                multiply_weight_row(&x, &p, j3, j2, n);
}

const struct td_op_variant td_ggml_mul_mat_c = {"ggml_mul_mat", "c", TD_CPU_ANY, mul_mat_work_bytes, run_mul_mat};
