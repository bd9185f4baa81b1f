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
    const char *symbol;            /* mangled; NULL: any symbol of the identifier */
    const char *identifier;        /* the name in the source (mangled.h), for builds that mangle it
                                    * otherwise; NULL: only the symbol counts */
    struct td_gpu_device device;
};

struct td_gpu_hit {
    enum td_gpu_match match;
    bool ptx_only;                 /* its container has no program for the device: the driver would
                                    * compile PTX, which can take long */
    const struct td_gpu_kernel *kernel;
    const struct td_gpu_entry *entry;
    /* For cuModuleLoadData or hipModuleLoadData: the container, or the code object. */
    const void *load;
    size_t load_bytes;
};

/* How well an entry fits the device: 0: it does not run; more is better. A cubin runs on its own compute
 * capability and on later ones of the same major number, one for 'a' on its own alone. PTX runs on any
 * later one, made for 'a' on its own alone, made for 'f' on its major number. */
int td_gpu_entry_fits(const struct td_gpu_entry *e, const struct td_gpu_device *device);

/* Find the kernels that match best: all exact ones if there are any, else those whose symbols are equal
 * after td_gpu_symbol_normal, else those of the identifier. Of equal ones, those with a program for the
 * device come before PTX. At most max of them are filled in; with max 1 the search ends at an exact match
 * in a program. Returns how many. TD_ENOTFOUND: none. TD_EUNSUPPORTED: there is one, for other devices,
 * which the sentence names. Other TD_E*: none, and some entry could not be read. */
int td_gpu_image_find(struct td_gpu_image *img, const struct td_gpu_wanted *want,
                      struct td_gpu_hit *hits, int max, struct td_error *err);
/* The next container, from number `from` on, that holds code for NVIDIA's GPUs, of whatever architecture,
 * with a kernel of exactly this symbol. -1: no more that can be read. */
int td_gpu_image_holding(struct td_gpu_image *img, const char *symbol, int from);

#endif
