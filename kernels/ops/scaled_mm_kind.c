/* scaled_mm_kind.c - ops of kind "scaled_mm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that are multiplied are stored exactly, so R1 is R0. Of integers, whose sum is exact,
 * mag is the magnitude of that sum: only its scaling rounds. Every row of W is widened once and
 * meets all rows of A. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/rowdot.h"
#include "kernels/ops/scaled_mm_op.h"

static int check_scaled_mm(const struct td_op_call *op, struct td_error *err)
{
    struct td_scaled_mm x;

    return td_scaled_mm_of(op, &x, err);
}

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
static void scale_column(const struct td_scaled_mm *x, int64_t n, struct td_op_ref *ref)
{
    const double w_scale = (double)td_scaled_mm_w_scale(x, n);

    for (int64_t i = 0; i < x->m; i++) {
        const int64_t e = i * x->n + n;
        const double scale = (double)td_scaled_mm_a_scale(x, i) * w_scale,
                     sum = ref->r0[e] - (double)td_scaled_mm_azp(x, i, n);

        ref->mag[e] = (x->integers ? fabs(sum) : ref->mag[e]) * fabs(scale);
        ref->r0[e] = sum * scale;
    }
}

static void multiply_rows(const struct td_scaled_mm *x, double *a, double *w, struct td_op_ref *ref)
{
    for (int64_t i = 0; i < x->m; i++)
        widen_a(x, i, a + i * x->k);
    for (int64_t n = 0; n < x->n; n++) {
        widen_w(x, n, w);
        td_rowdot(
            &(struct td_rowdot){x->k, x->m, w, w, a, a, ref->r0 + n, NULL, ref->mag + n, x->n});
        scale_column(x, n, ref);
    }
    td_op_ref_add_bias(ref, x->bias);
}

static int compute_scaled_mm_reference(const struct td_op_call *op, struct td_op_ref *ref,
                                       struct td_error *err)
{
    struct td_scaled_mm x;
    double *a;
    int rc;

    memset(ref, 0, sizeof *ref);
    if ((rc = td_scaled_mm_of(op, &x, err)) || (rc = td_op_ref_new(ref, x.m, x.n, x.k, false, err)))
        return rc;
    if ((rc = td_memory_room((uint64_t)(x.m + 1) * (uint64_t)x.k * sizeof *a,
                             "the reference of a scaled_mm", err))) {
        td_op_ref_release(ref);
        return rc;
    }
    if (!(a = malloc((size_t)(x.m + 1) * (size_t)x.k * sizeof *a))) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "scaled_mm: out of memory for the reference");
    }
    multiply_rows(&x, a, a + x.m * x.k, ref);
    free(a);
    return 0;
}

const struct td_op_kind td_scaled_mm_kind = {"scaled_mm", check_scaled_mm,
                                             compute_scaled_mm_reference};
