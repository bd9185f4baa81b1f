/* kernel_names.h - what the symbol of a GPU's kernel tells a reader.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_KERNEL_NAMES_H
#define TD_RECORDER_TAP_CLIENT_KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Is it a matrix product, or half of one, by what its authors call it? Attention is none, though it multiplies: it has no weights. Nor are kernels that
 * torch compiles itself, whose names list what was fused. */
bool td_kernel_is_gemm(const char *symbol);
/* A name for people, into out[n]: of a mangled symbol the names without types and arguments, "vllm::gptq::reconstruct_exllama_4bit_kernel"; where those do
 * not say that it is a product, the argument that does, "cutlass::device_kernel<GemmUniversal>". What does not fit ends in "...". */
void td_kernel_short_name(const char *symbol, char *out, size_t n);

#endif
