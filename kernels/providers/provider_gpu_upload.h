/* provider_gpu_upload.h - the tensors of a gptq_gemm on the GPU, in the layout that its kernel reads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_UPLOAD_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_UPLOAD_H

#include "kernels/providers/provider_gpu_state.h"

/* Upload every tensor of p->x as p->adapter's layout has it, and allocate C: fills memory, c_bytes and
 * c_dense. What was allocated before an error is p's. TD_ENOMEM; TD_EUNSUPPORTED: the layout cannot
 * hold this op's groups. */
int td_gpu_upload_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);

#endif
