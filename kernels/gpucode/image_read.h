/* image_read.h - a file of GPU code in memory, and finding its containers and entries; for image.c and image_find.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_GPUCODE_IMAGE_READ_H
#define TD_KERNELS_GPUCODE_IMAGE_READ_H

#include "kernels/gpucode/fatbin.h"
#include "kernels/gpucode/image_entry.h"
#include "kernels/gpucode/kernel_list.h"

#define TD_GPU_MAX_CONTAINERS 65536
#define TD_GPU_MAX_ENTRIES 524288

struct td_gpu_slice { const uint8_t *data; size_t n; };

struct td_gpu_part {
    struct td_gpu_entry e;
    struct td_fatbin_entry stored; /* AMD and bare cubins: a raw one */
    uint8_t *code;                 /* owned: unpacked when first asked for; NULL for raw ones */
    bool read;                     /* kernels and result are filled in */
    struct td_gpu_kernel_list kernels;
    struct td_error result;        /* of reading the kernels */
};

struct td_gpu_image {
    char *path;
    const char *what;
    const uint8_t *data;
    size_t n;
    bool mapped;
    struct td_gpu_slice *containers; int n_containers, cap_containers;
    struct td_gpu_part *parts; int n_parts, cap_parts;
};

/* Fill in what, containers and parts from data[n]; they lie in it. After an error the caller closes img.
 * err must not be NULL. */
int td_gpu_image_read(struct td_gpu_image *img, struct td_error *err);

#endif
