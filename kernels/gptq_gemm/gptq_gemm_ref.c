/* gptq_gemm_ref.c - the right answer: the formula of td_gptq.h in double, row by row of W, nothing clever.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A product of an f16 and a weight is exact in double, so the error is that of K additions: about K * 2^-53 * |A| * |W|. */
#include <math.h>
#include <stdlib.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "model/f16.h"

/* w : [n], row k of the dequantised W */
static int weight_row(const struct td_gptq_gemm_args *x, int64_t k, double *w)
{
    const int pack = 32 / x->bits, mask = (1 << x->bits) - 1;
    const int64_t g = x->g_idx ? x->g_idx[k] : k / x->group_size;

    if (g < 0 || g >= x->k / x->group_size)
        return TD_KERNEL_EINVAL;
    for (int64_t n = 0; n < x->n; n++) {
        const int q = (int)(x->qweight[k / pack * x->n + n] >> (x->bits * (k % pack))) & mask;
        const int z = (int)(x->qzeros[g * (x->n / pack) + n / pack] >> (x->bits * (n % pack))) & mask;

        w[n] = (double)(q - (z + x->zero_offset)) * (double)td_f16_load(x->scales[g * x->n + n]);
    }
    return TD_KERNEL_OK;
}

int td_gptq_gemm_ref(const struct td_gptq_gemm_args *x, double *r, double *mag)
{
    double *w = malloc((size_t)x->n * sizeof *w);
    int rc = w ? TD_KERNEL_OK : TD_KERNEL_ENOMEM;

    for (int64_t i = 0; !rc && i < (int64_t)x->m * x->n; i++) {
        r[i] = 0.0;
        if (mag)
            mag[i] = 0.0;
    }
    for (int64_t k = 0; !rc && k < x->k; k++) {
        if ((rc = weight_row(x, k, w)))
            break;
        for (int64_t m = 0; m < x->m; m++) {
            const double a = td_f16_load(x->a[m * x->lda + k]);

            for (int64_t n = 0; n < x->n; n++)
                r[m * x->n + n] += a * w[n];
            for (int64_t n = 0; mag && n < x->n; n++)
                mag[m * x->n + n] += fabs(a * w[n]);
        }
    }
    free(w);
    return rc;
}
