/* hip.h - CUDA's names for AMD's compiler, so that hipcc compiles the same .cu files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * HIP has most names as they are (__syncthreads, __half, __hfma2, atomicAdd, uint4); this maps those that
 * Debian's HIP 5.2 lacks. HIP's warp functions take no mask: all active lanes take part, which is the same
 * if the mask names them. warpSize is 64 on gfx9. Compiled for gfx906, gfx908 and gfx90a; never run on AMD
 * hardware. */
#ifndef TD_KERNELS_SIMT_HIP_H
#define TD_KERNELS_SIMT_HIP_H

#include <hip/hip_runtime.h>

#include <hip/hip_fp16.h>

#define __shfl_sync(mask, ...) __shfl(__VA_ARGS__)
#define __shfl_up_sync(mask, ...) __shfl_up(__VA_ARGS__)
#define __shfl_down_sync(mask, ...) __shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(mask, ...) __shfl_xor(__VA_ARGS__)
#define __ballot_sync(mask, predicate) __ballot(predicate)
#define __any_sync(mask, predicate) __any(predicate)
#define __all_sync(mask, predicate) __all(predicate)
#define __syncwarp(...) __builtin_amdgcn_wave_barrier() /* a wavefront runs in step */

#endif
