/* simt_launch.h - run a CUDA kernel of ours on the CPU: the emulator as C programs see it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The .cu file is compiled as C++ (simt.h stands for CUDA's headers). The threads of a block are fibres
 * that meet at barriers and in warp functions; blocks run one after the other. The order of blocks, and of
 * threads between two meetings, is drawn from a seed, so that a race or a missing barrier shows as results
 * that differ from seed to seed. For truth, not for speed. Device memory is memory of the process. */
#ifndef TD_KERNELS_SIMT_SIMT_LAUNCH_H
#define TD_KERNELS_SIMT_SIMT_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "kernels/gpu_param.h"

#ifdef __cplusplus
extern "C" {
#endif

struct td_simt_dim { uint32_t x, y, z; };

/* A kernel that a .cu file declares (TD_GPU_KERNELS at its end). All static. */
struct td_simt_kernel {
    const char *symbol;                /* as in a fatbin: unmangled */
    const struct td_gpu_param *params; /* offset and size as nvcc lays them out */
    int n_params;
    void (*run)(void *const *params);  /* what one thread does; for td_simt_launch alone */
};

/* Kernel i of all .cu files that are linked in; NULL after the last. */
const struct td_simt_kernel *td_simt_kernel_at(int i);
const struct td_simt_kernel *td_simt_kernel_find(const char *symbol); /* NULL: none of that name */

/* Launch a kernel as cuLaunchKernel does, and run it to its end.
 *   shared_bytes : dynamic shared memory
 *   params       : a pointer to each parameter's value, as kernelParams of cuLaunchKernel
 *   seed         : any; equal seeds give equal orders. Its second bit chooses what uninitialised shared
 *                  memory holds: NaN, or small numbers
 *   warp         : threads of a warp, 32 or 64 (AMD's wavefront)
 * TD_ENOTFOUND: no such kernel. TD_EINVAL: a size that no GPU takes; or a barrier or warp function that not
 * all threads reach: the sentence names it, its line, and a missing thread; memory is then half written.
 * TD_ENOMEM. Allocates only when a launch needs more threads than any before. Thread-safe: launches wait
 * for each other. A fault in a kernel is a fault of the process. */
int td_simt_launch(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block,
                   size_t shared_bytes, void *const *params, uint64_t seed, int warp,
                   struct td_error *err);
/* The same for a given kernel, which need not be in the table. */
int td_simt_launch_kernel(const struct td_simt_kernel *kernel, struct td_simt_dim grid,
                          struct td_simt_dim block, size_t shared_bytes, void *const *params,
                          uint64_t seed, int warp, struct td_error *err);

#ifdef __cplusplus
}
#endif
#endif
