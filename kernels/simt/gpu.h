/* gpu.h - the first include of every .cu file: CUDA, HIP, or the emulator on the CPU, by the compiler.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Kernels are written in CUDA's spelling, `extern "C" __global__ void td_name(...)`. What the three need
 * spelt otherwise:
 *   TD_LAUNCH(kernel, grid, block, shared_bytes, stream, args...)   for kernel<<<...>>>(args)
 *   TD_DYNAMIC_SHARED(type, name)   for extern __shared__ type name[], one a kernel
 *   TD_GPU_KERNELS(file) TD_GPU_KERNEL(name) ... TD_GPU_KERNELS_END   at the end of a file: its kernels,
 *                                   for the emulator's table (file: <folder>_<name> of kernels.def)
 * A __shared__ variable stands in a kernel or a plain function, not in a template (simt.h). Sums that must
 * be fused, or must not, are written so (fmaf, __fadd_rn), because nvcc and hipcc fuse where they can and
 * the emulator never does. */
#ifndef TD_KERNELS_SIMT_GPU_H
#define TD_KERNELS_SIMT_GPU_H

#include <stdint.h>

#if defined(TD_SIMT)
#include "kernels/simt/simt.h"
#else
#if defined(__HIPCC__)
#include "kernels/simt/hip.h"
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif
#define TD_LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define TD_DYNAMIC_SHARED(type, name)                                \
    extern __shared__ __align__(16) unsigned char td_dynamic_shared[]; \
    type *const name = (type *)td_dynamic_shared
#define TD_GPU_KERNELS(file)
#define TD_GPU_KERNEL(name)
#define TD_GPU_KERNELS_END
#endif

#endif
