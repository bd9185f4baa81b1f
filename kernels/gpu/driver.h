/* driver.h - a GPU as a provider sees it: memory, code, launches, times. A table of functions, one for CUDA and one for HIP.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One device, one context, one stream: launches, `copy`, `set` and `mark` run in the order of the calls; copies
 * wait for them. An error that the driver calls final (an illegal address) makes the context useless
 * for this process: is_dead() returns true from then on. Not thread-safe per device. */
#ifndef TD_KERNELS_GPU_DRIVER_H
#define TD_KERNELS_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "kernels/adapters/adapter.h"
#include "kernels/gpu/nvml.h"

struct td_gpu_facts {
    char name[128], version[64];   /* "NVIDIA H100 80GB HBM3"; "driver CUDA 13.0", "HIP 5.2.21153" */
    int sm;                        /* NVIDIA: 90; else 0 */
    char arch[64];                 /* "sm_90"; AMD: "gfx90a:sramecc+:xnack-" */
    uint32_t shared_max;           /* bytes of shared memory that a block can have */
    uint32_t grid_max[3], threads_max;
    size_t l2_bytes;
    int multiprocessors;
    char ptx_off[96];              /* why PTX is compiled in every process; "": it is cached */
};

struct td_gpu_memory {
    uint64_t address;
    size_t bytes;
    uint64_t base;                 /* not guarded: the driver's address, at or before `address` */
    uint64_t reserved;             /* guarded: the start of the address range; else 0 */
    size_t range_bytes, mapped_bytes;
    unsigned long long handle;
};

struct td_gpu_function {
    void *handle;
    struct td_gpu_param params[TD_GPU_PARAMS];
    int n_params;                  /* -1: the driver cannot tell (HIP, CUDA before 12.4);
                                    * gpu_build.c then fills them in from the file */
    uint32_t shared_bytes;         /* static shared memory */
    uint32_t threads_max, registers; /* of a block; of a thread */
};

struct td_gpu_driver {
    const char *name;              /* "cuda", "hip" */
    /* Open the first visible device. TD_ENOTFOUND: no driver or no device; the sentence names which.
     * beside_others : TD_EUNSUPPORTED, before it is taken, where it is set to serve a single process (NVIDIA's compute mode) */
    int (*open)(void **device, bool beside_others, struct td_gpu_facts *facts, struct td_error *err);
    void (*close)(void *device);
    bool (*is_dead)(const void *device);
    /* Memory at a multiple of align (a power of two, at most 4096; 0: 256). guard: behind it, after
     * a gap smaller than align, lies memory that faults when touched. TD_ENOMEM; TD_EUNSUPPORTED:
     * this driver has no guards. */
    int (*alloc)(void *device, size_t bytes, size_t align, bool guard, struct td_gpu_memory *out, struct td_error *err);
    void (*free)(void *device, struct td_gpu_memory *m); /* all zero: nothing to free */
    /* Pin memory of this process, so that copies of it are faster. False: this driver cannot. */
    bool (*pin)(void *device, void *memory, size_t bytes);
    void (*unpin)(void *device, void *memory);
    /* Copy memory that is pinned, in the order of the stream and without waiting for it: the bytes must stay as they are, or are
     * there, once the stream was waited for. copies_async: can this driver? */
    bool (*copies_async)(const void *device);
    int (*copy_in_async)(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err);
    int (*copy_out_async)(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err);
    int (*copy_in)(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err);
    int (*copy_out)(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err);
    int (*copy)(void *device, uint64_t to, uint64_t from, size_t bytes, struct td_error *err); /* on the device, as set */
    int (*set)(void *device, uint64_t to, uint8_t value, size_t bytes, struct td_error *err);
    /* image : what the driver loads (image_find.h: td_gpu_hit.load). */
    int (*load)(void *device, const void *image, void **module, struct td_error *err);
    void (*unload)(void *device, void *module);
    int (*function)(void *device, void *module, const char *symbol, struct td_gpu_function *out, struct td_error *err);
    /* params : a pointer to each value, of the sizes in f. Dynamic shared memory beyond the default is
     * asked for. Asynchronous. */
    int (*launch)(void *device, const struct td_gpu_function *f, const uint32_t grid[3],
                  const uint32_t block[3], uint32_t shared_bytes, void **params,
                  struct td_error *err);
    int (*wait)(void *device, struct td_error *err);
    void *(*stream)(void *device); /* for a library that launches (blas.h) */
    /* Mark 0 or 1 in the stream; elapsed waits for mark 1 and gives the device's time between them. */
    int (*mark)(void *device, int which, struct td_error *err);
    int (*elapsed)(void *device, int64_t *ns, struct td_error *err);
    /* Read clocks, temperature and power as they are now. NULL: done. Else why they cannot be read,
     * valid as long as the device. */
    const char *(*condition)(void *device, struct td_gpu_condition *out);
};

extern const struct td_gpu_driver td_gpu_driver_cuda; /* libcuda.so.1, or what TD_CUDA_LIBRARY names */
extern const struct td_gpu_driver td_gpu_driver_hip;  /* libamdhip64.so of HIP 5 or 6, or what TD_HIP_LIBRARY names */

#endif
