/* provider_gpu_upload_marlin.h - the weights of a gptq_gemm on the GPU as vLLM's Marlin kernel reads them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_UPLOAD_MARLIN_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_UPLOAD_MARLIN_H

#include "kernels/providers/provider_gpu_state.h"

/* Upload weights, scales, zero points, g_idx and bias as the adapter asks for them, and allocate the
 * kernel's c_tmp (NaN) and locks (0). TD_ENOMEM; TD_EUNSUPPORTED: rows are not sorted by group. */
int td_gpu_upload_marlin(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);

/* How the rows of an op with act-order are sorted by group: row i of the layout is row perm[i] of W. The caller frees it.
 * NULL: the op has no g_idx, its groups have several sizes, or there is no memory. */
int32_t *td_gpu_marlin_perm(const struct td_gptq_op *x);
/* Does vLLM sort the rows of such an op? */
bool td_gpu_marlin_sorts(const struct td_gptq_op *x);

#endif
