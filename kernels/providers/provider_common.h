/* provider_common.h - functions of struct td_provider that several providers share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_COMMON_H
#define TD_KERNELS_PROVIDERS_PROVIDER_COMMON_H

#include "kernels/providers/provider.h"

/* For providers that run td_gptq_gemm alone: NULL if op is a gptq_gemm that can be asked of it
 * (td_gptq_gemm_args_exact), else why not, in buf[size]. */
const char *td_provider_supports_gptq_gemm(const struct td_op_call *op, char *buf, size_t size);

/* prepare and release of providers that call td_gptq_gemm in this process: *prepared is a struct
 * td_gptq_gemm_args whose C is op->out.data. */
int td_provider_prepare_gptq_gemm(void *state, const struct td_op_call *op, void **prepared,
                                  struct td_error *err);
void td_provider_free_prepared(void *state, void *prepared);

/* rounding of providers that round nothing, whatever the recorded kernel rounded. */
const char *td_provider_rounding_none(void *state, const struct td_op_call *op);

/* rounding of providers that add with float32's bits or more what the recorded kernel may have added
 * with fewer (sum-e8m13), and otherwise round as the op says. */
const char *td_provider_rounding_exact_sums(void *state, const struct td_op_call *op);

/* fetch of providers that write op->out.data themselves. */
int td_provider_fetch_nothing(void *state, void *prepared, struct td_error *err);

#endif
