/* kernel_list.h - the kernels of one program of GPU code, as the readers of cubins, PTX and AMD code objects report them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_GPUCODE_KERNEL_LIST_H
#define TD_KERNELS_GPUCODE_KERNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "kernels/gpu_param.h"

#define TD_GPU_MAX_KERNELS 65536   /* of one program */
#define TD_GPU_MAX_PARAMS 4096     /* of one kernel; a parameter block has at most 32764 bytes */

/* One kernel. A number that its file does not have is 0. */
struct td_gpu_kernel {
    const char *symbol;            /* the name to ask the driver for */
    int entry;                     /* of the image (image.h) */
    int n_params;                  /* -1: the file does not say */
    const struct td_gpu_param *params; /* without AMD's hidden ones, which the runtime fills in */
    const bool *pointer;           /* AMD: is parameter i a pointer to global memory? NULL: not known */
    uint32_t param_bytes;          /* of the block; AMD: with the hidden ones */
    uint32_t shared_bytes;         /* static; without the KiB that sm_90 and later reserve for the system */
    uint32_t registers;            /* a thread */
    uint32_t max_threads;          /* a block: __launch_bounds__, or as the code object has it */
    uint32_t block[3];             /* required block dimensions */
    uint32_t cluster[3];           /* required cluster dimensions */
};

/* Invariant: kernels[0 .. n) own their symbol, params and pointer. */
struct td_gpu_kernel_list { struct td_gpu_kernel *kernels; size_t n, cap; };

/* Append a kernel: zeroed, but for a copy of its symbol and n_params -1. Valid until the next add.
 * NULL: TD_ENOMEM, TD_ELIMIT. */
struct td_gpu_kernel *td_gpu_kernel_add(struct td_gpu_kernel_list *list, const char *symbol,
                                        size_t symbol_len, struct td_error *err);
/* Allocate n parameters (zeroed) and set n_params; pointers: allocate `pointer` too. */
int td_gpu_kernel_set_params(struct td_gpu_kernel *k, size_t n, bool pointers, struct td_error *err);
void td_gpu_kernel_list_release(struct td_gpu_kernel_list *list);

#endif
