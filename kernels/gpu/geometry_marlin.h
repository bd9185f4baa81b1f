/* geometry_marlin.h - from an op to the launches of vLLM's Marlin kernels that compute it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The instance of the template and the number of blocks decide in which order partial sums meet, and
 * so the bits of C. If the recording has the launches, and this build and GPU can make them, they are
 * made again; else the launches are those that vLLM itself would choose here. vLLM's rules:
 * csrc/libtorch_stable/quantization/marlin/marlin.cu (marlin_mm, determine_exec_config,
 * is_valid_config, get_kernel_cache_size), read in 2026; vLLM 0.26 launched by them on an H100 (132
 * blocks, 232,448 bytes of shared memory, 141 rows as 128 + 13):
 *   rows    : as many 64s at once as there are, at most 128 of them (16 with N over 4096), then the
 *             rest. Where no instance fits, 48s, 32s, 16s.
 *   tiles   : for up to 16 rows the first of K x N 128 x 128 (256 threads), 64 x 128 (128), 128 x 64
 *             (128), for more rows of 64 x 256 (256), 64 x 128, 128 x 64, that divides K and N, whose
 *             pipeline of 4 stages (2 on sm_75) fits into shared memory, and of which the build has an
 *             instance; with 4 tiles of N and rows to a multiprocessor or fewer, 128 x 64.
 *   launch  : a block for each multiprocessor, with all the shared memory that a block can have. */
#ifndef TD_KERNELS_GPU_GEOMETRY_MARLIN_H
#define TD_KERNELS_GPU_GEOMETRY_MARLIN_H

#include "kernels/gpu/driver.h"
#include "kernels/gpu/geometry.h"

/* Plan the launches that make up op; all are of one adapter.
 *   call   : the op as recorded, for its symbol and launches
 *   offers : [n], kernels named "Marlin", of all types
 * NULL: *plan is filled; for an op without rows launch[0].offer is the kernel whose layout counts.
 * Else why not, in why[size]. */
const char *td_gpu_plan_marlin(const struct td_gptq_op *op, const struct td_op_call *call,
                               const struct td_gpu_offer *offers, int n,
                               const struct td_gpu_facts *gpu, struct td_gpu_plan *plan, char *why,
                               size_t size);

#define TD_MARLIN_LOCKS 4              /* ints for each multiprocessor; vLLM has 1 to 4, by version */
/* Bytes of c_tmp for m rows and `blocks` blocks: 256 floats for each row of a block's tile. */
size_t td_gpu_marlin_c_tmp_bytes(int64_t m, int64_t blocks);

#endif
