/* ptx_cache.h - see that the CUDA driver can cache the code it compiles from PTX.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver caches what cuModuleLoadData compiles from PTX, by PTX, architecture and its own version,
 * at most 1 GiB (CUDA_CACHE_MAXSIZE), in CUDA_CACHE_PATH, by default ~/.nv/ComputeCache;
 * CUDA_CACHE_DISABLE=1 turns the cache off (CUDA C++ Programming Guide, "Just-in-Time Compilation" and
 * "CUDA Environment Variables"). Tapedeck has no cache of its own: it gives the driver a folder where
 * the default one cannot be written, so that PTX is not compiled in every process. */
#ifndef TD_KERNELS_GPU_PTX_CACHE_H
#define TD_KERNELS_GPU_PTX_CACHE_H

#include <stddef.h>

/* Call before the driver is opened, because the driver reads its environment then. If CUDA_CACHE_PATH
 * is unset and the home's folder cannot be written, set it in this process to
 * $XDG_CACHE_HOME/tapedeck/cuda or /tmp/tapedeck-<uid>/cuda (our folders, mode 0700).
 *   off : [size] "", or why PTX will be compiled in every process */
void td_gpu_ptx_cache_open(char *off, size_t size);

#endif
