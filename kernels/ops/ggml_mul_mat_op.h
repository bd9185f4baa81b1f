/* ggml_mul_mat_op.h - from a recorded op of kind "ggml_mul_mat" to plain numbers: C = A * W^T for batches of matrices.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Attributes: m n k. Tensors, outermost dimension first, two to four dimensions (those that are missing are 1):
 *   a  [b3, b2, m, k]       F32, elements of a row side by side, else any strides
 *   w  [w3, w2, n, k/block] F32, F16, BF16 or a block format; blocks of a row side by side, else any strides
 *   c  [b3, b2, m, n]       F32, likewise
 * b2 is a multiple of w2, b3 of w3: batch (i3, i2) of A meets matrix (i3 / (b3/w3), i2 / (b2/w2)) of W (ggml_mul_mat in ggml.c).
 * ggml's own ne[] and nb[] have the innermost dimension first. NaN or Inf in a row of A gives NaN or Inf in that row of C alone;
 * what real builds make of it where activations are rounded depends on its place. */
#ifndef TD_KERNELS_OPS_GGML_MUL_MAT_OP_H
#define TD_KERNELS_OPS_GGML_MUL_MAT_OP_H

#include "kernels/ops/op.h"
#include "model/ggml_blocks.h"

struct td_ggml_mul_mat {
    int64_t m, n, k, b2, b3, w2, w3;
    enum td_dtype w_dtype;
    enum td_ggml_act act;              /* what happens to A first */
    const float *a;
    const unsigned char *w;
    float *c;                          /* NULL: nobody provided it yet */
    int64_t a_row, a_b2, a_b3;         /* strides in elements */
    int64_t w_row, w_b2, w_b3;         /* in bytes */
    int64_t c_row, c_b2, c_b3;         /* in elements */
};

/* Check everything and fill *x, which borrows from op. TD_EINVAL; TD_EUNSUPPORTED: a dtype, layout or rounding that is not known. */
int td_ggml_mul_mat_of(const struct td_op_call *op, struct td_ggml_mul_mat *x, struct td_error *err);

/* Row i of batch (i3, i2) of A, unrounded. */
static inline const float *td_ggml_mul_mat_a(const struct td_ggml_mul_mat *x, int64_t i3, int64_t i2, int64_t i)
{
    return x->a + i3 * x->a_b3 + i2 * x->a_b2 + i * x->a_row;
}

static inline const unsigned char *td_ggml_mul_mat_w(const struct td_ggml_mul_mat *x, int64_t j3, int64_t j2, int64_t n)
{
    return x->w + j3 * x->w_b3 + j2 * x->w_b2 + n * x->w_row;
}

#endif
