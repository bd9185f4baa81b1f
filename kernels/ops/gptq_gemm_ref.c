/* gptq_gemm_ref.c - the right answer: the formula of td_gptq.h in double, each element's products added in the order of K.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A product of an f16 and a weight is exact in double, so the error is that of K additions: about
 * K * 2^-53 * |A| * |W|. This is the plain loop, that tests hold the judge's (gptq_product_ref.c) and the
 * kernels against. W is dequantised once per strip of columns, and the sums of a row of a strip stay in
 * the cache. The order of additions is the same on every machine. */
#include "kernels/ops/gptq_gemm_ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"

#define STRIP 64 /* columns */

/* The same arithmetic compiled twice, chosen by the loader. Not under a sanitizer, whose runtime is not
 * ready when the loader chooses. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Fill w, [k, STRIP], with columns [n0, n0 + cols) of the dequantised W; the rest of a row is 0. */
static int weight_strip(const struct td_gptq_gemm_args *x, int64_t n0, int64_t cols, double *w)
{
    const int pack = 32 / x->bits, mask = (1 << x->bits) - 1;

    for (int64_t k = 0; k < x->k; k++) {
        const int64_t g = x->g_idx ? x->g_idx[k] : k / x->group_size;

        if (g < 0 || g >= x->k / x->group_size)
            return TD_KERNEL_EINVAL;
        for (int64_t i = 0; i < STRIP; i++) {
            const int64_t n = n0 + i;

            if (i >= cols) {
                w[k * STRIP + i] = 0.0;
                continue;
            }
            const int q = (int)(x->qweight[k / pack * x->n + n] >> (x->bits * (k % pack))) & mask;
            const int z = (int)(x->qzeros[g * (x->n / pack) + n / pack] >> (x->bits * (n % pack))) & mask;

            w[k * STRIP + i] = (double)(q - (z + x->zero_offset)) * (double)td_f16_load(x->scales[g * x->n + n]);
        }
    }
    return TD_KERNEL_OK;
}

/* One row of A times a strip. sum, mag : [STRIP]; a : [k]; w : [k, STRIP] */
WIDE static void row_strip(int64_t k, const double *restrict a, const double *restrict w,
                           double *restrict sum, double *restrict mag)
{
    for (int i = 0; i < STRIP; i++)
        sum[i] = mag[i] = 0.0;
    for (int64_t j = 0; j < k; j++)
        for (int i = 0; i < STRIP; i++) {
            const double p = a[j] * w[j * STRIP + i];

            sum[i] += p;
            mag[i] += fabs(p);
        }
}

int td_gptq_gemm_ref(const struct td_gptq_gemm_args *x, double *r, double *mag)
{
    double *w = malloc((size_t)x->k * STRIP * sizeof *w), *a = malloc((size_t)x->k * sizeof *a);
    double sums[STRIP], mags[STRIP];
    int rc = w && a ? TD_KERNEL_OK : TD_KERNEL_ENOMEM;

    for (int64_t n0 = 0; !rc && n0 < x->n; n0 += STRIP) {
        const int64_t cols = x->n - n0 < STRIP ? x->n - n0 : STRIP;

        if ((rc = weight_strip(x, n0, cols, w)))
            break;
        for (int64_t m = 0; m < x->m; m++) {
            for (int64_t k = 0; k < x->k; k++)
                a[k] = td_f16_load(x->a[m * x->lda + k]);
            row_strip(x->k, a, w, sums, mags);
            memcpy(r + m * x->n + n0, sums, (size_t)cols * sizeof *r);
            if (mag)
                memcpy(mag + m * x->n + n0, mags, (size_t)cols * sizeof *mag);
        }
    }
    free(a);
    free(w);
    return rc;
}
