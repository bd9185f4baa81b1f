/* reference_cu.h - the GPU kernels that compute references: names, parameters, launches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One launch makes all sums of an op in double, with the weights dequantised inside; each element's
 * products are added in the order of k, fused. So the sums are those of product_ref.h, bit for bit where
 * a product is exact.
 *
 *   td_reference_gptq          r0 and mag; nothing is rounded
 *   td_reference_gptq_rounded  r0, r1 and mag of the rounded numbers
 *   td_reference_gemm          r0 and mag of dense weights [n, k]
 *
 * Parameters, in this order:
 *   a [m, k] dense, of a type below;  w: qweight as in the checkpoint (td_gptq.h), or [n, k] dense
 *   qzeros, scales, g_idx (or NULL), row_scales [m][3] float (scale, inverse, 1: finite; or NULL)
 *   r0, r1, mag : [m, n] dense double;  m n k group_size : i32
 *   form : i32, TD_REFERENCE_FORM() */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_CU_H
#define TD_KERNELS_REFERENCE_REFERENCE_CU_H

#include <stdint.h>

#define TD_REFERENCE_TILE 64      /* rows and columns of a block */
#define TD_REFERENCE_THREADS 256

/* Types of numbers. */
#define TD_REFERENCE_F16 0
#define TD_REFERENCE_BF16 1
#define TD_REFERENCE_F32 2

/* What is rounded; the numbers of enum td_gptq_rounding. */
#define TD_REFERENCE_UINT8_TOKEN 1
#define TD_REFERENCE_WEIGHT_BF16 2
#define TD_REFERENCE_WEIGHT_F16 3
#define TD_REFERENCE_ZERO_BF16 4
#define TD_REFERENCE_ZERO_F16 5

/* bits: 4 or 8; zero_offset: 0 or 1; types of A and of scales, or of W */
#define TD_REFERENCE_FORM(bits, zero_offset, a_type, w_type, rounding) \
    ((bits) | (zero_offset) << 4 | (a_type) << 5 | (w_type) << 7 | (rounding) << 9)

static inline void td_reference_grid(int64_t m, int64_t n, uint32_t grid[3], uint32_t block[3])
{
    grid[0] = (uint32_t)((n + TD_REFERENCE_TILE - 1) / TD_REFERENCE_TILE);
    grid[1] = (uint32_t)((m + TD_REFERENCE_TILE - 1) / TD_REFERENCE_TILE);
    block[0] = TD_REFERENCE_THREADS;
    grid[2] = block[1] = block[2] = 1;
}

#endif
