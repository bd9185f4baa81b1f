/* gpu_kernels.h - what a launched function handle is: its name, its parameters, and the adapter
 * that reads them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two tables of fixed size. One holds the kernels that the server launches; it is emptied at each
 * arm. The other holds the kernels that were captured in CUDA graphs; it lives as long as the
 * process, because graphs do. */
#ifndef TD_RECORDER_TAP_GPU_GPU_KERNELS_H
#define TD_RECORDER_TAP_GPU_GPU_KERNELS_H

#include "recorder/tap/gpu/gpu_driver.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_kernel {
    _Atomic(void *) handle;           /* NULL: this place is free */
    _Atomic bool ready;               /* all below is filled in */
    _Atomic uint64_t n;               /* launches, without those in the next line */
    _Atomic uint64_t in_library_call; /* those inside a library's GEMM, recorded as one call */
    uint64_t sent, sent_in_library_call; /* how many of each the sender has reported */
    const struct td_gpu_adapter *adapter; /* NULL: the tap cannot read this kernel's parameters */
    struct td_gpu_param params[TD_GPU_PARAMS];
    int n_params;
    uint64_t hash;                    /* of the whole name (gpu_times.h); 0: not known */
    char symbol[TAP_SYMBOL];          /* "": not known, or too long */
};

/* How the kernel's parameters lie, as the driver says: p has room for TD_GPU_PARAMS. Returns how many; 0:
 * none, or the driver does not say. */
int tap_gpu_kernel_params(void *handle, struct td_gpu_param *p);

/* ---- launched kernels: any thread of the server, without a lock ------------------------------ */
/* Find the kernel, and describe it at its first launch of an arm. NULL: the table is full, or
 * another thread is describing it just now. */
struct tap_gpu_kernel *tap_gpu_kernel_find(void *handle, const char *symbol);
/* Forget all of them. From the tap's thread, while nobody is inside the tap. False: no memory. */
bool tap_gpu_kernels_clear(void);
/* Place i of the table, NULL behind the last. *used: a kernel has it. From the sender. */
struct tap_gpu_kernel *tap_gpu_kernel_at(unsigned i, bool *used);

/* ---- kernels captured in graphs: with the lock of the graphs held, but for the last one ------ */
bool tap_gpu_graph_kernels_open(void); /* false: no memory */
void tap_gpu_graph_kernels_forget(void); /* in the child of a fork */
struct tap_gpu_kernel *tap_gpu_graph_kernel_find(void *handle, const char *symbol);
struct tap_gpu_kernel *tap_gpu_graph_kernel_at(unsigned i, bool *used); /* from any thread */

#pragma GCC visibility pop
#endif
