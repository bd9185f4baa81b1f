/* ptx_cache.h - where the CUDA driver keeps what it compiled, so that PTX is compiled once and not in every process.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver caches the code that cuModuleLoadData makes of PTX: by PTX, architecture and its own version, bounded (1 GiB, CUDA_CACHE_MAXSIZE), in
 * CUDA_CACHE_PATH, by default ~/.nv/ComputeCache; CUDA_CACHE_DISABLE=1 ends that (CUDA C++ Programming Guide, "Just-in-Time Compilation" and "CUDA
 * Environment Variables"). So no cache of our own stands beside it; what is done here is to give it a folder where its own cannot be written. */
#ifndef TD_KERNELS_GPU_PTX_CACHE_H
#define TD_KERNELS_GPU_PTX_CACHE_H

#include <stddef.h>

/* Before the driver is opened, which reads its environment then. Where CUDA_CACHE_PATH is unset and the home's folder cannot be written it is set, in
 * this process, to $XDG_CACHE_HOME/tapedeck/cuda or /tmp/tapedeck-<uid>/cuda (folders of ours, mode 0700).
 *   off : "", or why PTX will be compiled in every process */
void td_gpu_ptx_cache_open(char *off, size_t size);

#endif
