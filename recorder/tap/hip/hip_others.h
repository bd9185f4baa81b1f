/* hip_others.h - how the parameters of kernels lie that no adapter knows: a file of the user's
 * (record --ops) may describe one after its code was loaded.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_HIP_HIP_OTHERS_H
#define TD_RECORDER_TAP_HIP_HIP_OTHERS_H

#include "kernels/adapters/adapter.h"

#pragma GCC visibility push(hidden)

/* Remember a kernel, by two hashes of its name. Known already with other parameters: neither
 * counts. Forgotten where the table is full, or a parameter lies beyond 64 KiB. One thread at a
 * time. Allocates nothing. */
void tap_hip_others_add(const char *symbol, const struct td_gpu_param *params, int n);
/* As tap_hip_code_params(). Any thread. */
int tap_hip_others_params(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS]);

#pragma GCC visibility pop
#endif
