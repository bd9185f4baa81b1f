/* vllm_layout.h - the layouts into which vLLM's CPU build packs 4-bit weights when it loads them, undone into GPTQ's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sources: vLLM 0.32, vllm/model_executor/kernels/linear/mixed_precision/cpu.py (both), csrc/cpu/sgl-kernels/gemm_int4.cpp
 * (convert_int4_weight_packed_with_compensation) and csrc/cpu/cpu_wna16.cpp (Dequantizer4b).
 *
 * "vllm_int4_vnni", what int4_scaled_mm_cpu reads (W4A8): blocks of 32 outputs by bk inputs, [n/32, k/bk] of 16 bk + 128 bytes each.
 *     byte 16 k + 32 h + 4 i + r, for k a multiple of 4, h 0 or 1, i 0..7, r 0..3, holds input k + r of two outputs: 16 h + i in the low
 *     four bits and 16 h + 8 + i in the high ones. The last 128 bytes are 32 int32: for each output the sum over the block's inputs of q - zero.
 *     zeros  : [n/32, groups, 32] i8, true zero points        scales : [n/32, groups, 32] f32, widened from the model's 16 bits
 * "vllm_wna16_n16", what cpu_gemm_wna16 reads (W4A16): blocks of 16 outputs, [n/16, 2 k] i32; words 2 k and 2 k + 1 of a block hold input k
 *     of its outputs, 4 bits each, the first lowest.
 *     zeros  : [groups, n/8] i32, true zero points packed the same way, or none: 8        scales : [groups, n] f16 or bf16 */
#ifndef TD_MODEL_VLLM_LAYOUT_H
#define TD_MODEL_VLLM_LAYOUT_H

#include <stdint.h>

#include "common/error.h"
#include "model/dtype.h"

#define TD_VLLM_INT4_BLOCK_N 32
#define TD_VLLM_WNA16_BLOCK_N 16

/* A layer in the layout of GPTQ checkpoints (kernels/abi/td_gptq.h), undone from one of vLLM's: those below, exllama's, Marlin's. */
struct td_vllm_weight {
    int bits;                  /* 4 or 8 */
    int64_t n, k, groups;
    enum td_dtype scale_dtype; /* F16 or BF16 */
    int zero_offset;           /* of qzeros: 1 as format "gptq" stores them (zero - 1); 0 where a zero point of 0 forbids it */
    uint32_t *qweight;         /* [k*bits/32, n] */
    uint32_t *qzeros;          /* [groups, n*bits/32] */
    uint16_t *scales;          /* [groups, n] */
    int32_t *g_idx;            /* [k], or NULL: rows are in group order */
};
/* Allocate for these sizes; qweight and qzeros are zeros, g_idx is NULL. TD_EINVAL: sizes that no 4 or 8 bit layer can have, n and k at most 2^24,
 * so that no product of them overflows. */
int td_vllm_weight_init(struct td_vllm_weight *w, int bits, int64_t n, int64_t k, int64_t groups, struct td_error *err);
void td_vllm_weight_release(struct td_vllm_weight *w); /* zeroed is allowed */

/* Undo them. Sizes: n a multiple of 32 (16), k of 8, groups divide k; bk divides k. The caller has checked that the arrays hold what they say.
 * 0; TD_EINVAL: sizes that this layout cannot have; TD_ECORRUPT: the sums do not belong to the weights, or a zero point is none of 0..15, so it
 * is another layout; TD_EUNSUPPORTED: scales that are no 16-bit floats; TD_ENOMEM. *out is to be released after a success only. */
int td_vllm_int4_unpack(const uint8_t *w, const int8_t *zeros, const float *scales, int64_t n, int64_t k, int64_t groups, int64_t bk,
                        struct td_vllm_weight *out, struct td_error *err);
/* zeros NULL: none. */
int td_vllm_wna16_unpack(const uint32_t *w, const uint32_t *zeros, const uint16_t *scales, enum td_dtype scale_dtype, int64_t n, int64_t k, int64_t groups,
                         struct td_vllm_weight *out, struct td_error *err);

#endif
