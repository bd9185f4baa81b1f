/* provider_gpu_blas.h - the GPU's library of products for a prepared op, and the W that it multiplies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * vLLM computes a gptq_gemm of many rows in two halves: a kernel of the build writes the dequantised
 * W, [k, n] in float16, and the GPU's library multiplies. */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_BLAS_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_BLAS_H

#include "kernels/providers/provider_gpu_state.h"

/* Look for the library, once: s->blas. False: it is not there, and s->no_blas says why. */
bool td_gpu_find_blas(struct td_gpu_state *s);

/* Start the library and allocate W, poisoned. After td_gpu_find_blas. */
int td_gpu_dequant_w_alloc(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* Fill W with NaN, asynchronously, so that unwritten elements show in C. */
int td_gpu_dequant_w_poison(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* C = A W, asynchronously. */
int td_gpu_dequant_w_multiply(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);

#endif
