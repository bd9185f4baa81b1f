/* scaled_mm_ref.c - the right answer of a product of 8-bit numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every row of W is widened once and meets all rows of A. */
#include "kernels/ops/scaled_mm_ref.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/ops/rowdot.h"

static void widen_a(const struct td_scaled_mm *x, int64_t i, double *to)
{
    for (int64_t j = 0; j < x->k; j++)
        to[j] = td_dtype_get(x->a_dtype, x->a + i * x->lda, (size_t)j) *
                (double)td_scaled_mm_a_block(x, i, j);
}

static void widen_w(const struct td_scaled_mm *x, int64_t n, double *to)
{
    for (int64_t j = 0; j < x->k; j++)
        to[j] = td_dtype_get(x->w_dtype, x->w + n * x->ldw, (size_t)j) *
                (double)td_scaled_mm_w_block(x, n, j);
}

/* From sums of products to results: zero points, then scales. */
static void scale_column(const struct td_scaled_mm *x, int64_t n, double *r0, double *mag)
{
    const double w_scale = (double)td_scaled_mm_w_scale(x, n);

    for (int64_t i = 0; i < x->m; i++) {
        const int64_t e = i * x->n + n;
        const double scale = (double)td_scaled_mm_a_scale(x, i) * w_scale,
                     sum = r0[e] - (double)td_scaled_mm_azp(x, i, n);

        mag[e] = (x->integers ? fabs(sum) : mag[e]) * fabs(scale);
        r0[e] = sum * scale;
    }
}

int td_scaled_mm_ref(const struct td_scaled_mm *x, double *r0, double *mag, struct td_error *err)
{
    double *a, *w;
    int rc = td_memory_room((uint64_t)(x->m + 1) * (uint64_t)x->k * sizeof *a,
                            "the reference of a scaled_mm", err);

    if (rc)
        return rc;
    if (!(a = malloc((size_t)(x->m + 1) * (size_t)x->k * sizeof *a)))
        return td_fail(err, TD_ENOMEM, "scaled_mm: out of memory for the reference");
    w = a + x->m * x->k;
    for (int64_t i = 0; i < x->m; i++)
        widen_a(x, i, a + i * x->k);
    for (int64_t n = 0; n < x->n; n++) {
        widen_w(x, n, w);
        td_rowdot(&(struct td_rowdot){x->k, x->m, w, w, a, a, r0 + n, NULL, mag + n, x->n});
        scale_column(x, n, r0, mag);
    }
    free(a);
    return 0;
}
