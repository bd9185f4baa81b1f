/* gptq_gemm_ref.h - the right answer of a plain gptq_gemm (td_gptq.h): F16, no bias, nothing rounded.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_GPTQ_GEMM_REF_H
#define TD_KERNELS_OPS_GPTQ_GEMM_REF_H

#include "kernels/abi/td_gptq.h"

/* Compute A * W in double, each element's products added in the order of K.
 *   x   : fit for td_gptq_gemm; x->c is not used. g_idx is checked here
 *   r   : [m, n] row-major, dense: A * W
 *   mag : [m, n] likewise: |A| * |W|; may be NULL
 * NaN and Inf in the inputs give what IEEE double arithmetic gives. Returns enum td_kernel_status. */
int td_gptq_gemm_ref(const struct td_gptq_gemm_args *x, double *r, double *mag);

#endif
