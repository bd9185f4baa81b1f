/* vllm_layout.h - the layouts into which vLLM's CPU build packs 4-bit weights when it loads them, undone into GPTQ's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sources: vLLM 0.32, vllm/model_executor/kernels/linear/mixed_precision/cpu.py (both),
 * csrc/cpu/sgl-kernels/gemm_int4.cpp (convert_int4_weight_packed_with_compensation) and
 * csrc/cpu/cpu_wna16.cpp (Dequantizer4b).
 *
 * "vllm_int4_vnni", which int4_scaled_mm_cpu reads (W4A8): blocks of 32 outputs by bk inputs, [n/32, k/bk]
 *     of 16 bk + 128 bytes each. Byte 16 k + 32 h + 4 i + r, for k a multiple of 4, h 0 or 1, i 0..7, r 0..3,
 *     holds input k + r of two outputs: 16 h + i in the low four bits and 16 h + 8 + i in the high ones. The
 *     last 128 bytes are 32 int32: for each output the sum over the block's inputs of q - zero.
 *     zeros  : [n/32, groups, 32] i8, true zero points
 *     scales : [n/32, groups, 32] f32, widened from the model's 16 bits
 * "vllm_wna16_n16", which cpu_gemm_wna16 reads (W4A16): blocks of 16 outputs, [n/16, 2 k] i32; words 2 k and
 *     2 k + 1 of a block hold input k of its outputs, 4 bits each, the first lowest.
 *     zeros  : [groups, n/8] i32, true zero points packed the same way, or none: 8
 *     scales : [groups, n] f16 or bf16 */
#ifndef TD_MODEL_VLLM_LAYOUT_H
#define TD_MODEL_VLLM_LAYOUT_H

#include <stdint.h>

#include "common/error.h"
#include "model/gptq_unpacked.h"

#define TD_VLLM_INT4_BLOCK_N 32
#define TD_VLLM_WNA16_BLOCK_N 16

/* Undo these layouts. n is a multiple of 32 (wna16: 16), k of 8; groups and bk divide k. The caller has
 * checked that the arrays have the sizes that their shapes give.
 * TD_EINVAL: sizes that this layout cannot have. TD_ECORRUPT: the sums do not belong to the weights, or a
 * zero point is none of 0..15, so it is another layout. TD_EUNSUPPORTED: scales that are no 16-bit floats.
 * TD_ENOMEM. *out is to be released after a success only. */
int td_vllm_int4_unpack(const uint8_t *w, const int8_t *zeros, const float *scales, int64_t n,
                        int64_t k, int64_t groups, int64_t bk, struct td_gptq_unpacked *out,
                        struct td_error *err);
/* zeros : NULL if there are none. */
int td_vllm_wna16_unpack(const uint32_t *w, const uint32_t *zeros, const uint16_t *scales,
                         enum td_dtype scale_dtype, int64_t n, int64_t k, int64_t groups,
                         struct td_gptq_unpacked *out, struct td_error *err);

#endif
