/* image_entry.h - one entry of a file of GPU code: a program for one architecture, or PTX.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_GPUCODE_IMAGE_ENTRY_H
#define TD_KERNELS_GPUCODE_IMAGE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#define TD_GPU_ARCH 64

/* OTHER: link-time code and the like, which is never loaded */
enum td_gpu_code { TD_GPU_CODE_OTHER = 0, TD_GPU_CODE_PTX, TD_GPU_CODE_CUBIN, TD_GPU_CODE_HSACO };

struct td_gpu_entry {
    int container;                 /* from 0 */
    enum td_gpu_code code;
    char arch[TD_GPU_ARCH];        /* "sm_90a", "compute_90" (PTX), "gfx90a:xnack-"; "" if the file does not say */
    int sm; char variant;          /* 90 and 'a', 'f' or 0; AMD: 0 */
    const char *packing;           /* "raw", "LZ4", "zstd", "unknown"; static */
    uint64_t stored_bytes, bytes;  /* as it lies in the file, and unpacked */
    /* filled in when its kernels are first asked for */
    uint64_t global_bytes, constant_bytes; /* NVIDIA: __device__ and __constant__ variables */
    bool relocatable;              /* made for a later link, so it cannot be loaded */
};

#endif
