/* adapter_read.h - what the entries of kernels use to read the values of a launch.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ADAPTERS_ADAPTER_READ_H
#define TD_KERNELS_ADAPTERS_ADAPTER_READ_H

#include "kernels/adapters/adapter.h"

#pragma GCC visibility push(hidden)

#define TD_GPU_COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* The entries of one family of kernels, in the order in which they are tried. */
struct td_gpu_adapters { const struct td_gpu_adapter *entries; int n; };

/* The value of the parameter of that name; 0: the kernel has none. */
uint64_t td_gpu_value(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, const char *name);
/* Can x be m, n or k: positive, at most TD_GPU_MAX_SIZE? */
bool td_gpu_is_size(int64_t x);
/* Append the operand `role`, if the kernel has it: dense [rows, cols] of dtype, or [cols] if rows is
 * 0. Beyond TD_GPU_OPERANDS nothing is appended. */
void td_gpu_work_add(struct td_gpu_work *w, const struct td_gpu_values *v, const char *role,
                     const char *dtype, uint64_t element_bytes, int64_t rows, int64_t cols);

/* `read` of kernels that multiply by a GPTQ weight with scales and zero points as in the checkpoint,
 * or that write the dequantised W. Operands that the kernel has, of: a [m, k] f16, qweight [k * bits /
 * 32, n], qzeros [groups, n * bits / 32], scales [groups, n] f16, perm or g_idx [k], c [m, n] f16,
 * b [k, n] f16 (W). */
bool td_gpu_read_gptq(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w);

#pragma GCC visibility pop
#endif
