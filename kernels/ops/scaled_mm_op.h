/* scaled_mm_op.h - from a recorded op of kind "scaled_mm" to plain numbers: a product of 8-bit
 * numbers, and the scales that give them their size.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     C = a_scales * w_scales * (A * W^T - azp * azp_adj) + bias
 *
 * Attributes: m n k; `block` 128 where scales are per block. Tensors:
 *   a        : [m, k] F8_E4M3, F8_E5M2 or I8 (without `block`); rows lda apart
 *   w        : [n, k], as a checkpoint has it; 8-bit floats if a is, else I8; rows ldw apart
 *   a_scales : F32, [1], [m], or with `block` [k / block rounded up, m]
 *   w_scales : F32, [1], [n], or with `block` [n / block, k / block], both rounded up
 *   azp_adj  : I32 [n], I8 only: the sums of W's columns; without an azp, times the zero point
 *   azp      : I32 [m]: the zero point of each row of A
 *   bias     : [n], any float
 *   c        : [m, n] F16, BF16 or F32; rows ldc apart
 *
 * Integers are summed exactly. Roundings (act_rounding): none; sum-e8m13, of 8-bit floats. NaN in a row of A gives NaN in that row of C alone. Source of the
 * meaning: vLLM 0.26, csrc/quantization/w8a8/cutlass/Epilogues.md. */
#ifndef TD_KERNELS_OPS_SCALED_MM_OP_H
#define TD_KERNELS_OPS_SCALED_MM_OP_H

#include "kernels/ops/op.h"

struct td_scaled_mm {
    int64_t m, n, k, lda, ldw, ldc;
    int64_t block; /* 0: scales are not per block */
    enum td_dtype a_dtype, w_dtype, c_dtype;
    bool integers; /* a and w are I8 */
    bool sums_cut; /* sum-e8m13 (op_rounding.h): 8-bit floats only */
    const unsigned char *a, *w;
    unsigned char *c; /* NULL: no memory for C yet */
    const float *a_scales, *w_scales;
    bool by_row, by_column;       /* a_scales [m], w_scales [n]; false: one for all, or per block */
    const int32_t *azp, *azp_adj; /* NULL: none */
    const struct td_tensor *bias; /* NULL: none */
};

/* Check everything and fill *x, which borrows from op. TD_EINVAL; TD_EUNSUPPORTED: this version
 * does not know an input, a rounding or a block. */
int td_scaled_mm_of(const struct td_op_call *op, struct td_scaled_mm *x, struct td_error *err);

/* What a[i, j] and w[n, j] are multiplied by: 1 without `block`; then what the sum of row i, of
 * column n is multiplied by: 1 with it. */
static inline float td_scaled_mm_a_block(const struct td_scaled_mm *x, int64_t i, int64_t j)
{
    return x->block ? x->a_scales[j / x->block * x->m + i] : 1;
}
static inline float td_scaled_mm_w_block(const struct td_scaled_mm *x, int64_t n, int64_t j)
{
    return x->block ? x->w_scales[n / x->block * ((x->k + x->block - 1) / x->block) + j / x->block]
                    : 1;
}
static inline float td_scaled_mm_a_scale(const struct td_scaled_mm *x, int64_t i)
{
    return x->block ? 1 : x->a_scales[x->by_row ? i : 0];
}
static inline float td_scaled_mm_w_scale(const struct td_scaled_mm *x, int64_t n)
{
    return x->block ? 1 : x->w_scales[x->by_column ? n : 0];
}
/* What is taken from the sum of element (i, n). */
static inline int64_t td_scaled_mm_azp(const struct td_scaled_mm *x, int64_t i, int64_t n)
{
    return x->azp_adj ? (x->azp ? (int64_t)x->azp[i] : 1) * x->azp_adj[n] : 0;
}

#endif
