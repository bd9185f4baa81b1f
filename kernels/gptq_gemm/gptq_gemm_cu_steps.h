/* gptq_gemm_cu_steps.h - the steps of the GPU kernels that a planted bug may replace, each with the right version.
 * SPDX-License-Identifier: Apache-2.0
 *
 * As gptq_gemm_steps.h for the CPU: a planted bug (demo/bugs/gpu/<name>.h) is included before everything
 * else and defines one or two of these. x is the launch's struct gptq_launch. */
#ifndef TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_CU_STEPS_H
#define TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_CU_STEPS_H

#ifndef STEP_WIDTH             /* columns up to here are computed and written */
#define STEP_WIDTH(x) ((x).n)
#endif
#ifndef STEP_COLUMN            /* the first of the four columns whose zero points and scales serve those from `first` on */
#define STEP_COLUMN(x, first) (first)
#endif
#ifndef STEP_ZERO              /* the true zero point */
#define STEP_ZERO(x, z) (z)
#endif
#ifndef STEP_HALF_SUMS         /* are the products of a word summed in f16? */
#define STEP_HALF_SUMS(x, bits, half_sums) (half_sums)
#endif
#ifndef STEP_SYNC              /* after threads wrote to shared memory, before others read it */
#define STEP_SYNC() __syncthreads()
#endif

#endif
