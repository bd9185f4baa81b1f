/* image.h - what GPU code a file holds: its containers, their entries, and the kernels of each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file is a host library or program (.nv_fatbin, .hip_fatbin), a fat binary, a cubin, a bundle of AMD
 * code, or an AMD code object. It holds containers, which the driver loads as a whole, choosing the
 * program that fits the device; and these hold entries: one program for one architecture, or PTX.
 * Opening reads headers only, because a library of 500 MB has thousands of containers. An entry is
 * unpacked and read when its kernels are first asked for, and only the kernels are then remembered. Not
 * thread-safe per image. The file is mapped: it must not be cut short while it is open. */
#ifndef TD_KERNELS_GPUCODE_IMAGE_H
#define TD_KERNELS_GPUCODE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "kernels/gpucode/image_entry.h"
#include "kernels/gpucode/kernel_list.h"

struct td_gpu_image;

/* TD_ENOTFOUND, TD_EIO; TD_EINVAL: not a file of these kinds, the sentence names its kind;
 * TD_EUNSUPPORTED; TD_ETRUNCATED, TD_ECORRUPT; TD_ELIMIT. */
int td_gpu_image_open(const char *path, struct td_gpu_image **out, struct td_error *err);
/* The same for n bytes of memory, which must outlive the image; name is for sentences. */
int td_gpu_image_memory(const void *data, size_t n, const char *name, struct td_gpu_image **out, struct td_error *err);
void td_gpu_image_close(struct td_gpu_image *img);

const char *td_gpu_image_path(const struct td_gpu_image *img);
const char *td_gpu_image_what(const struct td_gpu_image *img);     /* "host library", "fat binary", "cubin" ... */
int td_gpu_image_containers(const struct td_gpu_image *img);
/* The first name in a host library's table of names that begins with `start` ("libcudart.so": the CUDA
 * runtime that it needs). NULL: none. */
const char *td_gpu_image_needed(const struct td_gpu_image *img, const char *start);
int td_gpu_image_entries(const struct td_gpu_image *img);
const struct td_gpu_entry *td_gpu_image_entry(const struct td_gpu_image *img, int i);
/* A container's bytes as they lie in the file; in a host library, what `nvcc -fatbin` writes. */
const void *td_gpu_image_container(const struct td_gpu_image *img, int container, size_t *n);

/* The kernels of entry i, valid until close; an entry of code OTHER has none. TD_ECORRUPT, TD_ETRUNCATED,
 * TD_ELIMIT, TD_EUNSUPPORTED, TD_ENOMEM: this entry cannot be read; others may. */
int td_gpu_image_kernels(struct td_gpu_image *img, int i, const struct td_gpu_kernel_list **out, struct td_error *err);
/* The unpacked bytes of entry i (a cubin, PTX, a code object), valid until close. */
int td_gpu_image_code(struct td_gpu_image *img, int i, const void **data, size_t *n, struct td_error *err);

#endif
