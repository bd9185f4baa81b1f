/* kernel_names.h - what the symbol of a GPU's kernel tells.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Is it a matrix product? And a short name for people. */
#ifndef TD_RECORDER_TAP_CLIENT_KERNEL_NAMES_H
#define TD_RECORDER_TAP_CLIENT_KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Is it a matrix product, or half of one, by the name that its authors gave it? Attention is none:
 * it multiplies, but has no weights. Kernels that torch compiles itself ("triton_...") are none:
 * their names list what was fused. */
bool td_kernel_is_gemm(const char *symbol);
/* Write a short name into out[n]. Of a mangled symbol these are the names without types and
 * arguments, "vllm::gptq::reconstruct_exllama_4bit_kernel"; where they do not show a product, also
 * the argument that does, "cutlass::device_kernel<GemmUniversal>". A name that does not fit ends in
 * "...". */
void td_kernel_short_name(const char *symbol, char *out, size_t n);

#endif
