/* driver_core.h - what the drivers of CUDA and HIP have in common.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Their functions take the same arguments under other names, and their errors have the same numbers.
 * driver_cuda.c and driver_hip.c open the library and the device and fill a core; everything else of
 * driver.h is here. */
#ifndef TD_KERNELS_GPU_DRIVER_CORE_H
#define TD_KERNELS_GPU_DRIVER_CORE_H

#include "kernels/abi/cuda_abi.h"
#include "kernels/gpu/driver.h"

struct td_gpu_core {               /* first member of a driver's device */
    const char *name;              /* "the CUDA driver", for sentences */
    const char *no_guards;         /* why memory cannot be guarded, one sentence; NULL: it can */
    /* The name and text of an error; either NULL where the library has none. */
    void (*describe)(struct td_gpu_core *c, int result, const char **name, const char **text);
    void *library;
#define TD_GPU_CORE_MEMBER(name, member, args) int (*member) args;
    TD_CUDA_SHARED(TD_GPU_CORE_MEMBER)
    TD_CUDA_MAPPING(TD_GPU_CORE_MEMBER) /* NULL: the library has no such function */
    TD_CUDA_PINNING(TD_GPU_CORE_MEMBER) /* likewise */
#undef TD_GPU_CORE_MEMBER
    int device;
    void *stream, *events[2];
    int dead;                      /* the error that ended the context; 0: it lives */
};

/* Find a function in the library; false: it has none. fn is a member of a core, so that the compiler
 * checks its arguments where it is called. */
#define TD_GPU_CORE_FIND(core, name, fn) td_gpu_core_symbol((core)->library, name, &(fn), sizeof(fn))
bool td_gpu_core_symbol(void *library, const char *name, void *fn, size_t bytes);

/* TD_OK for a result of success; else its TD_E* code with the sentence "what: the CUDA driver says NAME
 * (number): text". A result that ends the context is remembered. */
int td_gpu_core_check(struct td_gpu_core *c, int result, struct td_error *err, const char *what);
/* An attribute of the device or of a function; 0 where it is not known. */
int td_gpu_core_attribute(struct td_gpu_core *c, int which);
uint32_t td_gpu_core_function_attribute(struct td_gpu_core *c, const struct td_gpu_function *f, int which);
/* Make the stream and the two events; end them, and close the library. */
int td_gpu_core_start(struct td_gpu_core *c, struct td_error *err);
void td_gpu_core_stop(struct td_gpu_core *c);

/* The functions of driver.h, as TD_GPU_CORE_TABLE lists them; function leaves n_params at -1. */
bool td_gpu_core_is_dead(const void *device);
int td_gpu_core_alloc(void *device, size_t bytes, size_t align, bool guard, struct td_gpu_memory *m, struct td_error *err);
void td_gpu_core_free(void *device, struct td_gpu_memory *m);
int td_gpu_core_copy_in(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err);
int td_gpu_core_copy_out(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err);
int td_gpu_core_copy(void *device, uint64_t to, uint64_t from, size_t bytes, struct td_error *err);
int td_gpu_core_set(void *device, uint64_t to, uint8_t value, size_t bytes, struct td_error *err);
int td_gpu_core_load(void *device, const void *image, void **module, struct td_error *err);
void td_gpu_core_unload(void *device, void *module);
int td_gpu_core_function(void *device, void *module, const char *symbol, struct td_gpu_function *f, struct td_error *err);
int td_gpu_core_wait(void *device, struct td_error *err);
bool td_gpu_core_pin(void *device, void *memory, size_t bytes);
void td_gpu_core_unpin(void *device, void *memory);
bool td_gpu_core_copies_async(const void *device);
int td_gpu_core_copy_in_async(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err);
int td_gpu_core_copy_out_async(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err);
void *td_gpu_core_stream(void *device);
int td_gpu_core_mark(void *device, int which, struct td_error *err);
int td_gpu_core_elapsed(void *device, int64_t *ns, struct td_error *err);

#define TD_GPU_CORE_TABLE                                                                          \
    .is_dead = td_gpu_core_is_dead, .alloc = td_gpu_core_alloc, .free = td_gpu_core_free,          \
    .pin = td_gpu_core_pin, .unpin = td_gpu_core_unpin, .copies_async = td_gpu_core_copies_async,  \
    .copy_in_async = td_gpu_core_copy_in_async, .copy_out_async = td_gpu_core_copy_out_async,      \
    .copy_in = td_gpu_core_copy_in, .copy_out = td_gpu_core_copy_out, .copy = td_gpu_core_copy, .set = td_gpu_core_set,      \
    .load = td_gpu_core_load, .unload = td_gpu_core_unload, .wait = td_gpu_core_wait,              \
    .stream = td_gpu_core_stream, .mark = td_gpu_core_mark, .elapsed = td_gpu_core_elapsed

#endif
