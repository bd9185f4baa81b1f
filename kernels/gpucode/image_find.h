/* image_find.h - find a kernel in a file of GPU code by its name, and the bytes that a driver loads for it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_GPUCODE_IMAGE_FIND_H
#define TD_KERNELS_GPUCODE_IMAGE_FIND_H

#include "kernels/gpucode/image.h"

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
