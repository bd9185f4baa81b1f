/* image.h - what GPU code a file holds: its kernels, found by name, and the bytes that a driver loads for one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file is a host library or program (.nv_fatbin, .hip_fatbin), a fat binary, a cubin, a bundle of AMD code, or an AMD code object. It holds containers
 * (what the driver loads at once: it chooses the program that fits the device) and these hold entries: one program for one architecture, or PTX. Opening
 * reads only headers: a library of 500 MB has thousands of containers. An entry is unpacked and read when its kernels are first asked for; nothing is
 * kept of it but them. Not thread-safe per image. The file is mapped: it must not be cut short while it is open. */
#ifndef TD_KERNELS_GPUCODE_IMAGE_H
#define TD_KERNELS_GPUCODE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "kernels/gpucode/kernel_list.h"

#define TD_GPU_ARCH 64

enum td_gpu_code { TD_GPU_CODE_OTHER = 0, TD_GPU_CODE_PTX, TD_GPU_CODE_CUBIN, TD_GPU_CODE_HSACO }; /* OTHER: link-time code and the like, never loaded */

struct td_gpu_entry {
    int container;                 /* from 0 */
    enum td_gpu_code code;
    char arch[TD_GPU_ARCH];        /* "sm_90a", "compute_90" (PTX), "gfx90a:xnack-"; "" if the file does not say */
    int sm; char variant;          /* 90 and 'a', 'f' or 0; AMD: 0 */
    const char *packing;           /* "raw", "LZ4", "zstd", "unknown" */
    uint64_t stored_bytes, bytes;  /* as it lies in the file, and unpacked */
    /* known once its kernels were asked for */
    uint64_t global_bytes, constant_bytes; /* NVIDIA: __device__ and __constant__ variables of the program */
    bool relocatable;              /* made for a later link: cannot be loaded */
};

struct td_gpu_image;

/* TD_ENOTFOUND, TD_EIO; TD_EINVAL: not a file of these kinds, says of which; TD_EUNSUPPORTED; TD_ETRUNCATED, TD_ECORRUPT; TD_ELIMIT. */
int td_gpu_image_open(const char *path, struct td_gpu_image **out, struct td_error *err);
/* The same of n bytes that outlive the image; name is for sentences. */
int td_gpu_image_memory(const void *data, size_t n, const char *name, struct td_gpu_image **out, struct td_error *err);
void td_gpu_image_close(struct td_gpu_image *img);

const char *td_gpu_image_path(const struct td_gpu_image *img);
const char *td_gpu_image_what(const struct td_gpu_image *img);     /* "host library", "fat binary", "cubin" ... */
int td_gpu_image_containers(const struct td_gpu_image *img);
/* The first name in a host library's table of names that begins so ("libcudart.so": the runtime that it needs), or NULL. */
const char *td_gpu_image_needed(const struct td_gpu_image *img, const char *start);
int td_gpu_image_entries(const struct td_gpu_image *img);
const struct td_gpu_entry *td_gpu_image_entry(const struct td_gpu_image *img, int i);
/* The container's bytes as they lie in the file: of a host library what `nvcc -fatbin` writes. */
const void *td_gpu_image_container(const struct td_gpu_image *img, int container, size_t *n);

/* The kernels of entry i, valid until close. Of an entry of another kind: none. TD_ECORRUPT, TD_ETRUNCATED, TD_ELIMIT, TD_EUNSUPPORTED, TD_ENOMEM: it
 * cannot be read; others can. */
int td_gpu_image_kernels(struct td_gpu_image *img, int i, const struct td_gpu_kernel_list **out, struct td_error *err);
/* The unpacked bytes of entry i (a cubin, PTX, a code object), valid until close. */
int td_gpu_image_code(struct td_gpu_image *img, int i, const void **data, size_t *n, struct td_error *err);

/* ---- finding ------------------------------------------------------------------------------------------------------- */

struct td_gpu_device {
    int sm;                        /* NVIDIA: compute capability, 90 for 9.0 */
    const char *gfx;               /* AMD: "gfx90a:sramecc+:xnack-"; NULL for NVIDIA */
};

enum td_gpu_match { TD_GPU_MATCH_NONE = 0, TD_GPU_MATCH_FAMILY, TD_GPU_MATCH_NORMAL, TD_GPU_MATCH_EXACT };

struct td_gpu_wanted {
    const char *symbol;            /* mangled; NULL: any of the identifier */
    const char *identifier;        /* the name in the source (td_gpu_symbol_is), for builds that mangle it otherwise; NULL: none will do */
    struct td_gpu_device device;
};

struct td_gpu_hit {
    enum td_gpu_match match;
    bool ptx_only;                 /* its container has no program for the device: the driver would compile PTX, which can take long */
    const struct td_gpu_kernel *kernel;
    const struct td_gpu_entry *entry;
    const void *load; size_t load_bytes; /* for cuModuleLoadData, hipModuleLoadData: the container, or the code object */
};

/* How well an entry fits the device: 0 it does not run; more is better. A cubin runs on its own compute capability and on later ones of the same major
 * number; 'a' on its own alone; PTX on any later one (made for 'a': on its own alone; for 'f': on its major number). */
int td_gpu_entry_fits(const struct td_gpu_entry *e, const struct td_gpu_device *device);

/* The kernels that match best: all exact ones if there are any, else those equal after td_gpu_symbol_normal, else those of the identifier; of equal ones
 * those with a program for the device come before PTX. At most max of them are filled; with max 1 and an exact match in a program the search ends there.
 * Returns how many; TD_ENOTFOUND: none; TD_EUNSUPPORTED: there is one, for other devices, and says which; other TD_E*: none, and some entry could not be
 * read. */
int td_gpu_image_find(struct td_gpu_image *img, const struct td_gpu_wanted *want, struct td_gpu_hit *hits, int max, struct td_error *err);
/* The next container, from number `from` on, with code for NVIDIA's GPUs, for whatever of them, that has a kernel of exactly this symbol. -1: no more that
 * can be read. */
int td_gpu_image_holding(struct td_gpu_image *img, const char *symbol, int from);

#endif
