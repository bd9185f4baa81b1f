/* scaled_mm_f32.c - a product of 8-bit numbers in portable C: 8-bit floats widened and summed in float,
 * block by block; integers summed exactly.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/dot_f32.h"
#include "kernels/ops/scaled_mm_ref.h"

size_t td_scaled_mm_f32_work(const struct td_scaled_mm *x)
{
    return x->integers ? 0 : (size_t)(x->m + 1) * (size_t)x->k;
}

static void widen_row(enum td_dtype dt, const unsigned char *row, int64_t k, float *to)
{
    for (int64_t j = 0; j < k; j++)
        to[j] = dt == TD_DT_F8_E4M3 ? td_e4m3_to_f32(row[j]) : td_e5m2_to_f32(row[j]);
}

/* The sum of row i of A and row n of W, blocks scaled. */
static float dot_floats(const struct td_scaled_mm *x, int64_t i, int64_t n, const float *a,
                        const float *w)
{
    float sum = 0;

    if (!x->block)
        return td_dot_f32(a, w, x->k);
    for (int64_t j = 0; j < x->k; j += x->block) {
        const int64_t width = x->k - j < x->block ? x->k - j : x->block;

        sum += td_dot_f32(a + j, w + j, width) *
               (td_scaled_mm_a_block(x, i, j) * td_scaled_mm_w_block(x, n, j));
    }
    return sum;
}

static float dot_integers(const struct td_scaled_mm *x, int64_t i, int64_t n)
{
    const signed char *a = (const signed char *)x->a + i * x->lda,
                      *w = (const signed char *)x->w + n * x->ldw;
    int64_t sum = 0;

    for (int64_t j = 0; j < x->k; j++)
        sum += a[j] * w[j];
    return (float)(sum - td_scaled_mm_azp(x, i, n));
}

void td_scaled_mm_f32(const struct td_scaled_mm *x, float *work)
{
    float *w = work, *a = x->integers ? NULL : w + x->k;

    for (int64_t i = 0; a && i < x->m; i++)
        widen_row(x->a_dtype, x->a + i * x->lda, x->k, a + i * x->k);
    for (int64_t n = 0; n < x->n; n++) {
        const float bias = x->bias ? (float)td_dtype_get(x->bias->dtype, x->bias->data, (size_t)n) : 0;

        if (a)
            widen_row(x->w_dtype, x->w + n * x->ldw, x->k, w);
        for (int64_t i = 0; i < x->m; i++) {
            const float sum = a ? dot_floats(x, i, n, a + i * x->k, w) : dot_integers(x, i, n);

            td_store_f32(x->c_dtype, x->c, i * x->ldc + n,
                         td_scaled_mm_a_scale(x, i) * (td_scaled_mm_w_scale(x, n) * sum) + bias);
        }
    }
}
