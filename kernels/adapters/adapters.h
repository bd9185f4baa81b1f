/* adapters.h - the kernels of the field that are known: an entry each, found by symbol and parameters.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A family of kernels is a file adapter_<family>.c and a word in the list FAMILIES of adapters.c. */
#ifndef TD_KERNELS_ADAPTERS_ADAPTERS_H
#define TD_KERNELS_ADAPTERS_ADAPTERS_H

#include "kernels/adapters/adapter.h"

#pragma GCC visibility push(hidden)

/* Entry i of all; NULL after the last. Entries of one name follow each other. */
const struct td_gpu_adapter *td_gpu_adapter_at(int i);

/* The entry that knows this kernel: one of its name, whose template arguments the symbol has, with as
 * many parameters of the sizes that the entry has. NULL: there is none. *known (may be NULL): an entry
 * has that name, so that the kernel is another version of a known one. */
const struct td_gpu_adapter *td_gpu_adapter_find(const char *symbol,
                                                 const struct td_gpu_param *params, int n_params,
                                                 bool *known);

/* Is it the name of an operator of a library of torch's ("_C::marlin_gemm"), not a kernel's symbol? */
bool td_gpu_symbol_is_operator(const char *symbol);

/* Does an entry declare that the kernel adds to its output? Several blocks then add halves to one
 * element in any order, so that no two runs give the same bits. symbol: the kernel's, or the name of an
 * operator ("_C::gptq_gemm"), whose kernels are those that read weights of this layout ("exllama") and
 * so many bits, but beyond some rows: then it has cuBLAS multiply, which adds in one order. */
bool td_gpu_kernel_adds(const char *symbol, const char *layout, int64_t bits, int64_t rows);

/* vLLM 0.26, q_gemm.cu: MAX_Q_GEMM_ROWS, MAX_Q_GEMM_ROWS_8BIT. For more rows it dequantises W. */
#define TD_GPU_EXLLAMA_MOST_ROWS(bits) ((bits) == 8 ? 24 : 50)

#pragma GCC visibility pop
#endif
