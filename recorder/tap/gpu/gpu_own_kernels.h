/* gpu_own_kernels.h - kernels that the user described (record --ops FILE), as `record` sent them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_GPU_GPU_OWN_KERNELS_H
#define TD_RECORDER_TAP_GPU_GPU_OWN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/adapters/adapter.h"

#pragma GCC visibility push(hidden)

/* Let the kernels of this text count from now on, in place of all others. text NULL: none. Returns
 * NULL, or why not; then none counts. Texts that were seen before cost nothing; at most
 * TAP_OWN_TEXTS (own_texts.h) others are read in the life of a process. Allocates, and frees nothing: what
 * was read of launches points here. From the tap's thread, which sleeps. */
const char *tap_gpu_own_kernels_set(const char *text, size_t n);

/* Is the kernel one of these, whatever its parameters? Any thread. */
bool tap_gpu_own_kernel_is(const char *symbol);
/* Its adapter. NULL: it is none of these, or has other parameters than the user said. Any thread. */
const struct td_gpu_adapter *tap_gpu_own_kernel_find(const char *symbol, const struct td_gpu_param *params,
                                                     int n_params);
/* A sentence about a kernel that was launched and has other parameters than the user said; NULL:
 * there was none. */
const char *tap_gpu_own_kernels_trouble(void);

#pragma GCC visibility pop
#endif
