/* kernel_names.h - what can be read from the symbol of a GPU kernel: whether it is a GEMM, and a
 * short name for people.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_KERNEL_NAMES_H
#define TD_COMMON_KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Does the name say GEMM, or one step of one? Attention does not count: it multiplies, but has no
 * weights. Kernels that torch compiles itself ("triton_...") do not count: their names list what
 * was fused. */
bool td_kernel_is_gemm(const char *symbol);
/* Does the name say attention? */
bool td_kernel_is_attention(const char *symbol);
/* Write a short name into out[n]. Of a mangled symbol these are the names without types and
 * arguments, "vllm::gptq::reconstruct_exllama_4bit_kernel"; where they do not show a product, also
 * the argument that does, "cutlass::device_kernel<GemmUniversal>". A name that does not fit ends in
 * "...". */
void td_kernel_short_name(const char *symbol, char *out, size_t n);

#endif
