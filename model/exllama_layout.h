/* exllama_layout.h - the layout in which vLLM's exllama kernels (gptq_gemm on a GPU) read weights, made and undone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu (shuffle_exllama_weight:
 * make_sequential_*bit_kernel, then shuffle_*bit_kernel) and qdq_4.cuh, qdq_8.cuh (which bits are which
 * element: shuffle_4bit_8, and dequant_4bit_8_gptq, which reads them). The layout is exllamav2's.
 *
 * qweight keeps its shape [k * bits / 32, n]. With a permutation (act-order) row i of the layout is row
 * perm[i] of the checkpoint: rows are sorted by group, so that group g is group_size rows from g *
 * group_size on; the kernel then reads A's column perm[i]. Within a word:
 *   4 bits : element j (row 8 w + j) lies at bit 4 * (j / 2) + 16 * (j % 2): from the lowest nibble on
 *            0 2 4 6 1 3 5 7, where the checkpoint has 0 1 2 3 4 5 6 7, so that one mask gives both halves
 *            of a half2
 *   8 bits : as in the checkpoint
 *   2 and 3 bits are shuffled too, and not supported here.
 * qzeros and scales stay as they are in the checkpoint, whose stored zero points are the true ones less
 * zero_offset: the kernel adds 1, or 0 if it has an argument use_v2_format that is true. */
#ifndef TD_MODEL_EXLLAMA_LAYOUT_H
#define TD_MODEL_EXLLAMA_LAYOUT_H

#include <stdint.h>

#include "common/error.h"

/* shuffle: from the checkpoint's layout to exllama's; unshuffle: back.
 *   qweight, out : [k * bits / 32, n], must not overlap; every word of out is written
 *   perm         : [k], a permutation of 0 .. k - 1 (td_gptq_argsort_groups, or as the server had it), or
 *                  NULL: rows stay where they are
 * TD_EUNSUPPORTED: bits other than 4 and 8. TD_EINVAL: k or n that the layout cannot have, or perm is no
 * permutation; TD_ENOMEM. After an error out is undefined. */
int td_exllama_shuffle(int bits, int64_t k, int64_t n, const uint32_t *qweight, const int32_t *perm,
                       uint32_t *out, struct td_error *err);
int td_exllama_unshuffle(int bits, int64_t k, int64_t n, const uint32_t *qweight,
                         const int32_t *perm, uint32_t *out, struct td_error *err);

#endif
