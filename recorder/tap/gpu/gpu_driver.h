/* gpu_driver.h - the functions of the GPU's driver that the tap calls.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One table, with the names and arguments of CUDA's driver. The front of the vendor whose GPU the
 * process uses fills it before the first launch is recorded: cuda_load.c with CUDA's functions,
 * hip_load.c with HIP's. Nothing in recorder/tap/gpu asks which of the two it was. */
#ifndef TD_RECORDER_TAP_GPU_GPU_DRIVER_H
#define TD_RECORDER_TAP_GPU_GPU_DRIVER_H

#include "kernels/abi/cuda_abi.h"
#include "kernels/adapters/adapter.h"
#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_MEMBER(name, member, args) int (*member) args;
struct tap_gpu_driver {
    TD_CUDA_TAP_NEEDED(TAP_GPU_MEMBER)
    TD_CUDA_TAP_OPTIONAL(TAP_GPU_MEMBER) /* each may be NULL */
    /* Find the parameters of a kernel by its name, return their number. Used in place of CUDA's
     * ParamInfo functions unless NULL. */
    int (*named_params)(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS]);
    /* What stands for the context of a stream's work. NULL: the calling thread's current one. */
    void *(*context_of)(void *stream);
    /* The thread's last error, and to take back one that the tap made: a server that asks for its
     * last error must not see ours. NULL: there is no such error (CUDA's driver). */
    int (*peek_error)(void);
    void (*restore_error)(int before);
};
extern struct tap_gpu_driver tap_driver;

/* The context in which the work of a stream runs; NULL: it is not known. */
void *tap_gpu_context_of(void *stream);
/* Around calls of the driver by the tap, outside of a launch: what tap_gpu_error_before() returned
 * goes to tap_gpu_error_restore() after them. */
int tap_gpu_error_before(void);
void tap_gpu_error_restore(int before);

/* The compute capability of the calling thread's device, 90 for 9.0; 0: it is not known, or it is not
 * NVIDIA's. */
int tap_gpu_capability(void);

/* Is the stream being captured into a graph? True also when the driver does not answer: launches on
 * it are left alone then. */
bool tap_gpu_stream_is_capturing(void *stream);
/* A number that no other stream of the process has, before or after; 0: not known. A handle is no
 * such number: a new stream may get the handle of a destroyed one, and one handle stands for every
 * thread's own default stream. */
uint64_t tap_gpu_stream_number(void *stream);

#pragma GCC visibility pop
#endif
