/* gemm_ref.c - the right answer of a gemm.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gemm_ref.h"

#include <stdlib.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/product_share.h"
#include "model/ggml_blocks.h"

/* From element j of row i on. */
static const unsigned char *place(const unsigned char *rows, enum td_dtype dtype, int64_t ld, int64_t i, int64_t j)
{
    return rows + (size_t)(i * ld + j) * td_dtype_size(dtype);
}

static void read_row(const void *ctx, int64_t i, int64_t k0, int64_t kn, double *stored, double *rounded)
{
    const struct td_gemm *x = ctx;

    (void)rounded;
    td_ggml_split_row(x->a_dtype, place(x->a, x->a_dtype, x->lda, i, k0), kn, stored, NULL);
}

static void read_weights(const void *ctx, const struct td_product_part *p, double *stored, double *rounded)
{
    const struct td_gemm *x = ctx;
    double line[TD_PRODUCT_DEPTH];

    (void)rounded;
    for (int64_t i = 0; i < p->cols; i++) {
        td_ggml_split_row(x->w_dtype, place(x->w, x->w_dtype, x->ldw, p->n0 + i, p->k0), p->kn, line, NULL);
        for (int64_t j = 0; j < p->kn; j++)
            stored[TD_PRODUCT_AT(p->kn, j, i)] = line[j];
    }
}

int td_gemm_ref_new(const struct td_gemm *x, struct td_op_ref *ref, struct td_error *err)
{
    int rc = td_op_ref_new(ref, x->m, x->n, x->k, false, err);

    if (!rc && x->bias_after && (rc = td_op_ref_new_slack(ref, err)))
        td_op_ref_release(ref);
    return rc;
}

void td_gemm_ref_finish(const struct td_gemm *x, struct td_op_ref *ref)
{
    if (x->bias_after)
        td_op_ref_allow_rounding(ref, x->c_dtype);
    td_op_ref_add_bias(ref, x->bias);
}

int td_gemm_ref(const struct td_gemm *x, struct td_op_ref *ref, struct td_error *err)
{
    int rc = td_gemm_ref_new(x, ref, err);

    if (rc)
        return rc;
    if ((rc = td_product_run(&(struct td_product){.m = x->m, .n = x->n, .k = x->k, .row = read_row, .weights = read_weights, .ctx = x,
                                                  .r0 = ref->r0, .mag = ref->mag}))) {
        td_op_ref_release(ref);
        return td_fail(err, rc, "gemm: out of memory for the reference");
    }
    td_gemm_ref_finish(x, ref);
    return 0;
}

int td_gemm_block_sums(const struct td_gemm *x, const struct td_k_blocks *b, td_block_sums_fn *tell, void *ctx, struct td_error *err)
{
    double *sums = malloc(((size_t)x->m * (size_t)x->n + 1) * sizeof *sums);
    int rc = sums ? TD_OK : td_fail(err, TD_ENOMEM, "gemm: out of memory for sums of a part of K");

    for (int64_t i = 0; i < td_k_blocks_count(b, x->k) && !rc; i++) {
        struct td_gemm part = *x;
        int64_t first;

        part.k = td_k_block_at(b, x->k, i, &first);
        part.a = place(x->a, x->a_dtype, x->lda, 0, first);
        part.w = place(x->w, x->w_dtype, x->ldw, 0, first);
        if ((rc = td_product_columns(&(struct td_product){.m = x->m, .n = x->n, .k = part.k, .row = read_row, .weights = read_weights,
                                                          .ctx = &part, .r0 = sums}, 0, x->n)))
            td_fail(err, rc, "gemm: out of memory for sums of a part of K");
        else
            tell(ctx, first, part.k, sums);
    }
    free(sums);
    return rc;
}
