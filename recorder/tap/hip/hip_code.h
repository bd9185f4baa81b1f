/* hip_code.h - how the parameters of kernels lie, read from the code objects that HIP's runtime
 * loads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_HIP_HIP_CODE_H
#define TD_RECORDER_TAP_HIP_HIP_CODE_H

#include "kernels/adapters/adapter.h"
#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

#define TAP_HIP_UNSURE (-1)           /* code objects disagree */
/* A code object of n bytes was loaded: remember the parameters of its kernels. Any thread. Allocates nothing; the bytes are not trusted. */
void tap_hip_code_note(const void *object, size_t n);
/* How many parameters the kernel of that name takes, and where they lie; 0: not known;
 * TAP_HIP_UNSURE. Any thread. */
int tap_hip_code_params(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS]);
void tap_hip_code_forked(void);       /* in the child of a fork */

#pragma GCC visibility pop
#endif
