/* allspark_layout.h - the layout in which vLLM's allspark_w8a16_gemm reads GPTQ weights, made and undone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/quantization/gptq_allspark/allspark_repack.cu
 * (rearrange_kn_weight_as_n32k16_order). Weights of 8 bits with one group, no zero points: the type
 * is uint8b128. n32 is n rounded up to a multiple of 32.
 *
 *   qweight [n32, k] bytes : weight (k, n) is byte n / 32 * 8 + n % 8 of rows of 4 k bytes, there in
 *            tile k / 16 of 64 bytes, pair k % 8 / 2 * 2 + n % 32 / 16 of 8 bytes, byte
 *            k % 2 + k % 16 / 8 * 2 + n % 16 / 8 * 4
 *   scales [1, n32] of 16 bits : scale n is number n / 32 * 32 + n % 8 * 4 + n % 32 / 8
 *   What lies behind n is 0. */
#ifndef TD_MODEL_ALLSPARK_LAYOUT_H
#define TD_MODEL_ALLSPARK_LAYOUT_H

#include <stdint.h>

#include "common/error.h"

/* n rounded up to a multiple of 32. */
int64_t td_allspark_padded(int64_t n);
/* From the checkpoint's words [k / 4, n] and scales [n] to bytes [n32, k] and scales [n32], and back.
 * TD_EINVAL: k or n is no multiple of 16. */
int td_allspark_repack(int64_t k, int64_t n, const uint32_t *checkpoint, const uint16_t *scales,
                       unsigned char *runtime, uint16_t *runtime_scales, struct td_error *err);
int td_allspark_unrepack(int64_t k, int64_t n, const unsigned char *runtime,
                         const uint16_t *runtime_scales, uint32_t *checkpoint, uint16_t *scales,
                         struct td_error *err);

#endif
