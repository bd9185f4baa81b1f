/* ggml_mul_mat_op.h - from a recorded op of kind "ggml_mul_mat" to plain numbers: C = A * W^T for batches of matrices.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Attributes: m n k. Tensors of two to four dimensions (a missing one is 1), outermost first:
 *   a  [b3, b2, m, k]       F32, the elements of a row side by side, any other strides
 *   w  [w3, w2, n, k/block] F32, F16, BF16 or a block format; the blocks of a row side by side, any
 *                           other strides
 *   c  [b3, b2, m, n]       as a
 * b2 is a multiple of w2, b3 of w3: batch (i3, i2) of A meets matrix (i3 / (b3/w3), i2 / (b2/w2)) of W
 * (ggml_mul_mat in ggml.c). ggml's own ne[] and nb[] have the innermost dimension first. NaN or Inf in
 * a row of A gives NaN or Inf in that row of C alone; where activations are rounded, what real builds
 * make of it depends on its place. */
#ifndef TD_KERNELS_OPS_GGML_MUL_MAT_OP_H
#define TD_KERNELS_OPS_GGML_MUL_MAT_OP_H

#include "kernels/ops/op.h"
#include "model/ggml_blocks.h"

struct td_ggml_mul_mat {
    int64_t m, n, k, b2, b3, w2, w3;
    enum td_dtype w_dtype;
    enum td_ggml_act act;              /* how A is rounded first */
    const float *a;
    const unsigned char *w;
    float *c;                          /* NULL: no memory for C yet */
    int64_t a_row, a_b2, a_b3;         /* strides in elements */
    int64_t w_row, w_b2, w_b3;         /* in bytes */
    int64_t c_row, c_b2, c_b3;         /* in elements */
};

/* Check everything and fill *x, which borrows from op. TD_EINVAL; TD_EUNSUPPORTED: this version does not
 * know a dtype, layout or rounding. */
int td_ggml_mul_mat_of(const struct td_op_call *op, struct td_ggml_mul_mat *x, struct td_error *err);

/* Row i of batch (i3, i2) of A, [k], unrounded. */
static inline const float *td_ggml_mul_mat_a(const struct td_ggml_mul_mat *x, int64_t i3, int64_t i2, int64_t i)
{
    return x->a + i3 * x->a_b3 + i2 * x->a_b2 + i * x->a_row;
}

/* Row n of matrix (j3, j2) of W, k / block blocks. */
static inline const unsigned char *td_ggml_mul_mat_w(const struct td_ggml_mul_mat *x, int64_t j3, int64_t j2, int64_t n)
{
    return x->w + j3 * x->w_b3 + j2 * x->w_b2 + n * x->w_row;
}

#endif
