/* hip_parts.h - the parts of the HIP front end (AMD GPUs): what they share. What happens to a launch is the CUDA front end's (gpu_parts.h), over HIP's functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   hip_launch.c         arming; around a launch                    hip_hooks.c  the functions of libamdhip64 that the tap stands before
 *   hip_load.c    HIP's functions in the table of CUDA's     hip_code.c    how the parameters of kernels lie, from their code objects
 *   hip_real.c    the real function of each of many callers  hip_blas.c    hipblasHgemm, behind reconstruct_exllama
 *
 * There is no CUPTI for AMD, and none is needed: LD_PRELOAD stands before the exported functions that launch. Two things of a kernel are asked for: its
 * name, of the runtime (hipKernelNameRef), and where its parameters lie, which HIP cannot say: its code object's metadata does, and every code
 * object passes, unpacked and with its size, through hsa_code_object_reader_create_from_memory when the runtime loads it.
 *
 * It has run on a fake runtime only (tests/helpers/lib_fake_hip.c), never on AMD hardware. */
#ifndef TD_RECORDER_TAP_HIP_HIP_PARTS_H
#define TD_RECORDER_TAP_HIP_HIP_PARTS_H

#include "recorder/tap/gpu/gpu_parts.h"
#include "kernels/abi/tap_hip_abi.h"

#pragma GCC visibility push(hidden)

/* ---- hip_load.c ------------------------------------------------------------------------------------------------ */

#define TAP_HIP_MEMBER(name, member, args) int (*member) args;
#define TAP_HIP_TEXT(name, member, args) const char *(*member) args;
struct tap_hip_runtime { TAP_HIP_FUNCTIONS(TAP_HIP_MEMBER) TAP_HIP_OPTIONAL(TAP_HIP_MEMBER) TAP_HIP_TEXTS(TAP_HIP_TEXT) };
extern struct tap_hip_runtime tap_hip;
/* Find them in the library that defines fn (NULL: the libamdhip64 that is mapped), and put them into tap_driver. NULL: done; else why not. From the
 * tap's thread. */
const char *tap_hip_load(const void *fn);
/* The library whose kernels an adapter knows best, else the runtime: into library[n]. */
void tap_hip_library(char *library, size_t n);
/* What stands for a device where CUDA has a context. */
void *tap_hip_context(int device);
void tap_hip_reset(void);             /* a device was reset: what we have there is gone */
void tap_hip_stream_ended(void);      /* its handle may be another's from now on */

/* ---- hip_real.c ------------------------------------------------------------------------------------------------ */

/* As tap_real_find, for functions with thousands of callers: each kernel has a stub of its own that calls. which: a number of s's own, below 32. */
void *tap_hip_real(struct tap_symbol *s, unsigned which, const void *caller);

/* ---- hip_code.c ------------------------------------------------------------------------------------------------ */

#define TAP_HIP_UNSURE (-1)           /* code objects disagree */
/* A code object of n bytes was loaded: remember the parameters of kernels whose names an adapter knows. Allocates nothing, believes nothing. */
void tap_hip_code_note(const void *object, size_t n);
/* How many parameters the kernel of that name takes, and where they lie; 0: not known; TAP_HIP_UNSURE. */
int tap_hip_code_params(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS]);
void tap_hip_code_forked(void);

/* ---- hip_launch.c ----------------------------------------------------------------------------------------------------- */

struct tap_hip_call {                 /* a call that launches a kernel, as its function got it */
    const void *function;             /* or */
    const void *stub;                 /* the address that stands for a kernel in the host's code */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    void *stream;
    void **params, **extra;
    bool per_thread;                  /* a function of per-thread default streams */
    bool items;                       /* grid counts work-items */
    struct tap_cuda_launch launch;    /* the rest is hip_launch.c's */
    uint64_t token;
};
/* Is the long way to be gone? Else the real function may be called at once. */
bool tap_hip_awake(void);
/* Before and after the real function; leave returns rc. A launch inside a launch is the runtime's own affair. */
void tap_hip_enter(struct tap_hip_call *call, const void *real);
int tap_hip_leave(struct tap_hip_call *call, int rc);
/* The same for calls that are no launches: false: not armed for us; else tap_cuda_go_out() when done. And before that, after calls of our own: an error
 * of theirs is taken back, unless the thread's last error was one before. */
bool tap_hip_come_in(void);
void tap_hip_mend(int error_before);
void tap_hip_graph(const void *real); /* a whole graph is launched */
void tap_hip_seen(void);              /* HIP is in use in this process */
void tap_hip_device_set(int ordinal); /* hipSetDevice names it */

#pragma GCC visibility pop
#endif
