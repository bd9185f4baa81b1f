/* linear.h - a linear layer that is not quantised, as torch asks the GPU's library of products for it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_GPU_LINEAR_H
#define TD_KERNELS_GPU_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

/* C = A W^T + bias, row-major, all float16 or all bfloat16, added in float32.
 *   a : [m, k], rows lda >= k elements apart      w : [n, k], dense
 *   c : [m, n], rows ldc >= n elements apart      bias : [n], 0: none
 * Addresses on the device. */
struct td_gpu_linear {
    int m, n, k, lda, ldc;
    bool bf16;
    uint64_t a, w, c, bias;
};

#endif
