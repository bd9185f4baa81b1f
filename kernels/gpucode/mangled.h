/* mangled.h - the kernel's name and template arguments in a mangled symbol (Itanium C++ ABI).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Also part of the tap: includes nothing of ours, allocates nothing. */
#ifndef TD_KERNELS_GPUCODE_MANGLED_H
#define TD_KERNELS_GPUCODE_MANGLED_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define TD_GPU_NO_ARGUMENT INT64_MIN

/* Is `identifier` a name in `symbol`? A mangled name holds it behind its length
 * ("33gemm_half_q_half_gptq_4bit_kernel"), so that a name which merely contains it is none. An
 * unmangled symbol must be equal. */
bool td_gpu_symbol_is(const char *symbol, const char *identifier);

/* The n-th integer template argument (from 0) of a mangled symbol: of "...kernelILb1ELin4EE..." 1 and
 * -4. TD_GPU_NO_ARGUMENT: there is none. */
int64_t td_gpu_symbol_argument(const char *symbol, int n);

#pragma GCC visibility pop
#endif
