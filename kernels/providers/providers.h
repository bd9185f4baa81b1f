/* providers.h - the providers that are built in, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDERS_H
#define TD_KERNELS_PROVIDERS_PROVIDERS_H

#include "kernels/providers/provider.h"

extern const struct td_provider td_provider_ref; /* double, rounded once to the output; arg: NULL */
extern const struct td_provider td_provider_cpu; /* a variant in the tree; arg: its name, or NULL for the fastest that runs here */
extern const struct td_provider td_provider_lib; /* a build: arg is the path of a library that exports td_gptq_gemm (td_gptq.h) */
extern const struct td_provider td_provider_ggml; /* a build of ggml: arg is its folder, or a library of it (ggml_build.h) */
extern const struct td_provider td_provider_simt; /* our GPU kernels in the emulator; arg: options, or a build for it (provider_simt.c) */
extern const struct td_provider td_provider_cuda; /* a GPU: arg is a library, a fat binary or a cubin whose kernels adapter.h knows */
extern const struct td_provider td_provider_hip;  /* an AMD GPU: arg is a library, a bundle or a code object */

/* Shared by all three: NULL, or why op is no gptq_gemm fit to run. buf : holds the sentence. */
const char *td_provider_supports_gptq_gemm(const struct td_op_call *op, char *buf, size_t size);
/* Shared by those that call td_gptq_gemm in this process: *prepared is a struct td_gptq_gemm_args, and C is where it belongs. */
int td_provider_prepare_gptq_gemm(void *state, const struct td_op_call *op, void **prepared, struct td_error *err);
/* For those that round nothing, whatever the recorded kernel rounded. */
const char *td_provider_rounding_none(void *state, const struct td_op_call *op);
int td_provider_fetch_nothing(void *state, void *prepared, struct td_error *err);
void td_provider_free_prepared(void *state, void *prepared);

#endif
