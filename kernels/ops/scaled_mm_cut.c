/* scaled_mm_cut.c - the sums of a product of 8-bit floats as Hopper's tensor cores keep them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/scaled_mm_cut.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/ops/cut_sums.h"

/* An error of so many standard deviations is one unit of the judge. Outputs that are added in any
 * order reach 1.4 units (docs/measurements/2026-11-fp8-sums.md). */
#define DEVIATIONS 4

/* Row i of those that follow it. */
static struct td_cut_row row_at(struct td_cut_row r, int64_t i, int64_t k)
{
    return (struct td_cut_row){r.value + i * k, r.exponent + i * k};
}

/* The sum of element (i, n), scaled. */
static struct td_cut_sum sum_of(const struct td_scaled_mm *x, struct td_cut_row a, struct td_cut_row w,
                                int64_t i, int64_t n)
{
    const double scale = (double)td_scaled_mm_a_scale(x, i) * (double)td_scaled_mm_w_scale(x, n);
    const int64_t step = x->block ? x->block : x->k;
    struct td_cut_sum all = {0, 0};

    for (int64_t j = 0; j < x->k; j += step) {
        const struct td_cut_sum s = td_cut_sum_of(a, w, j, x->k - j < step ? x->k - j : step);
        const double f = scale * (double)td_scaled_mm_a_block(x, i, j) * (double)td_scaled_mm_w_block(x, n, j);

        all.sum += s.sum * f;
        all.variance += s.variance * f * f;
    }
    return all;
}

/* all : the rows of A, then room for one of W */
static void cut_columns(const struct td_scaled_mm *x, struct td_cut_row all, const double *r0,
                        double *ordered, double *slack)
{
    const struct td_cut_row w = row_at(all, x->m, x->k);

    for (int64_t i = 0; i < x->m; i++)
        td_cut_row_read(x->a_dtype, x->a + i * x->lda, x->k, row_at(all, i, x->k));
    for (int64_t n = 0; n < x->n; n++) {
        td_cut_row_read(x->w_dtype, x->w + n * x->ldw, x->k, w);
        for (int64_t i = 0; i < x->m; i++) {
            const int64_t e = i * x->n + n;
            struct td_cut_sum s = {r0[e], 0};

            if (isfinite(r0[e]))
                s = sum_of(x, row_at(all, i, x->k), w, i, n);
            ordered[e] = s.sum;
            slack[e] = DEVIATIONS * sqrt(s.variance);
        }
    }
}

int td_scaled_mm_cut(const struct td_scaled_mm *x, const double *r0, double *ordered, double *slack,
                     struct td_error *err)
{
    const size_t count = (size_t)(x->m + 1) * (size_t)x->k;
    struct td_cut_row rows;
    int rc = td_memory_room(count * (sizeof *rows.value + sizeof *rows.exponent), "the cut sums of a scaled_mm", err);

    if (rc)
        return rc;
    rows = (struct td_cut_row){malloc(count * sizeof *rows.value), malloc(count * sizeof *rows.exponent)};
    if (rows.value && rows.exponent)
        cut_columns(x, rows, r0, ordered, slack);
    else
        rc = td_fail(err, TD_ENOMEM, "scaled_mm: out of memory for the cut sums");
    free(rows.value);
    free(rows.exponent);
    return rc;
}
