/* marlin_layout.h - the layout in which vLLM's Marlin kernel reads GPTQ weights, made and undone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sources: vLLM 0.26 and 0.32, csrc/quantization/marlin/gptq_marlin_repack.cu (qweight),
 * vllm/model_executor/layers/quantization/utils/marlin_utils.py (marlin_permute_scales,
 * marlin_permute_bias, marlin_zero_points, marlin_sort_g_idx) and marlin_utils_test.py (get_weight_perm,
 * marlin_weights). For activations of 16 bits only: for 8-bit ones vLLM packs otherwise.
 *
 *   qweight [k / 16, n * bits / 2] : tiles of 16 inputs by 64 outputs, one after the other along n, each of
 *            32 * bits words. With r the row and c the column in the tile, thread t = c % 8 * 4 + r % 8 / 2
 *            of warp c / 16 finds them in its fragment, i = r % 2 + r / 8 * 2, h = c % 16 / 8:
 *            4 bits : word 4 t + c / 16, the nibbles from the lowest on h and i 00 02 10 12 01 03 11 13
 *            8 bits : word 8 t + c / 16 * 2 + h, the bytes from the lowest on i 0 2 1 3
 *   scales [groups, n] f16 or bf16 : the columns of each 64, as an 8 x 8 square, transposed; with one group
 *            those of each 32: 0 1 8 9 16 17 24 25, then the same from 2, 4 and 6 on. A bias [n] is laid
 *            out as the scales of one group.
 *   zero points [groups, n * bits / 32] : true ones (no zero_offset), columns in the order of scales of
 *            several groups, then each 8 (4 bits: 0 2 4 6 1 3 5 7) or 4 (8 bits: 0 2 1 3) of them
 *            interleaved, then packed, the first lowest. Only for types with zero points (AWQ's uint4):
 *            GPTQ on Marlin is symmetric (uint4b8, uint8b128), every zero point is 8 or 128, and none are
 *            stored.
 *   act-order : rows are sorted by group before they are packed, with perm = argsort(g_idx). The kernel has
 *            no perm: vLLM sorts A's columns in a launch of its own before. Where the kernel has all of k
 *            it is launched as without act-order; where it has some rows of a row-parallel layer its groups
 *            are those of the g_idx that it is given, sorted as well. */
#ifndef TD_MODEL_MARLIN_LAYOUT_H
#define TD_MODEL_MARLIN_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define TD_MARLIN_TILE_K 16
#define TD_MARLIN_TILE_N 64

/* repack: from the checkpoint's layout to Marlin's; unrepack: back.
 *   checkpoint : [k * bits / 32, n], runtime : [k / 16, n * bits / 2]: as many words; must not overlap
 *   perm       : [k], a permutation (row i of the layout is row perm[i] of the checkpoint), or NULL
 * Every word of the result is written. TD_EUNSUPPORTED: bits other than 4 and 8. TD_EINVAL: k is no
 * multiple of 16, n none of 64, or perm is no permutation; TD_ENOMEM. After an error the result is
 * undefined. vLLM pads other sizes with zeros before it packs; so must the caller. */
int td_marlin_repack(int bits, int64_t k, int64_t n, const uint32_t *checkpoint,
                     const int32_t *perm, uint32_t *runtime, struct td_error *err);
int td_marlin_unrepack(int bits, int64_t k, int64_t n, const uint32_t *runtime, const int32_t *perm,
                       uint32_t *checkpoint, struct td_error *err);

/* Scales, or with one group a bias, of any 16-bit type: both [groups, n]; must not overlap. TD_EINVAL: n is
 * no multiple of 64 (of 32 with one group). */
int td_marlin_permute_scales(int64_t groups, int64_t n, const uint16_t *checkpoint, uint16_t *runtime, struct td_error *err);
int td_marlin_unpermute_scales(int64_t groups, int64_t n, const uint16_t *runtime, uint16_t *checkpoint, struct td_error *err);

/* Zero points: both [groups, n * bits / 32]. checkpoint holds the true ones less zero_offset; unpacking
 * gives zero_offset 0. TD_EUNSUPPORTED: bits other than 4 and 8, or a true zero point of 2^bits, which
 * Marlin cannot have; TD_EINVAL: n that the layout cannot have. */
int td_marlin_pack_zeros(int bits, int64_t groups, int64_t n, const uint32_t *checkpoint,
                         int zero_offset, uint32_t *runtime, struct td_error *err);
int td_marlin_unpack_zeros(int bits, int64_t groups, int64_t n, const uint32_t *runtime,
                           uint32_t *checkpoint, struct td_error *err);
/* Are all true zero points the ones of a symmetric type, 8 or 128? Only then Marlin's uint4b8 and uint8b128 mean the same. */
bool td_marlin_zeros_are_symmetric(int bits, int64_t groups, int64_t n, const uint32_t *checkpoint, int zero_offset);

#endif
