/* gptq_gemm_steps.h - the steps of the CPU kernels that a planted bug may replace, each with the right version.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A planted bug (demo/bugs/<name>.h) is included before everything else and defines one or two of these;
 * the rest of the build is the same code, so that its speed can be compared. x is the call's struct
 * td_gptq_gemm_args. A step may get a scalar or a vector (vf floats, vu words: gptq_gemm_core.h), so it
 * should use operators only. No parameter may have the name of a member of x that the step uses. */
#ifndef TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_STEPS_H
#define TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_STEPS_H

#ifndef STEP_ARGS              /* statement; x is a copy of the caller's arguments, checked */
#define STEP_ARGS(x) ((void)0)
#endif
#ifndef STEP_PLAN              /* statement; p is the struct plan: the blocks of K in their order */
#define STEP_PLAN(x, p) ((void)0)
#endif
#ifndef STEP_A_INDEX           /* where A[row][i] lies */
#define STEP_A_INDEX(x, row, i) ((row) * (x)->lda + (i))
#endif
#ifndef STEP_A_BITS            /* a half of A, as bits */
#define STEP_A_BITS(h) (h)
#endif
#ifndef STEP_WORD              /* the word of qweight that holds row i of W */
#define STEP_WORD(x, word, i) (word)
#endif
#ifndef STEP_COLUMN            /* the first column whose zero points and scales serve the vector of columns from `first` on */
#define STEP_COLUMN(x, first) (first)
#endif
#ifndef STEP_ZERO_BITS         /* distance of two zero points in a word */
#define STEP_ZERO_BITS(bits) (bits)
#endif
#ifndef STEP_ZERO              /* the true zero point, as float */
#define STEP_ZERO(x, z) (z)
#endif
#ifndef STEP_SCALE
#define STEP_SCALE(x, s) (s)
#endif
#ifndef STEP_START             /* where the sum for the columns at c starts */
#define STEP_START(x, c) splat(0.0f)
#endif
#ifndef STEP_SCALE_ADD         /* part * scale + sum */
#define STEP_SCALE_ADD(part, scale, sum) madd(part, scale, sum)
#endif
#ifndef STEP_LANE              /* the sum of every second product of a word: a * (q - zero), not scaled yet */
#define STEP_LANE(x, sum) (sum)
#endif
#ifndef STEP_BLOCK_END         /* the sum so far, after a block of K */
#define STEP_BLOCK_END(x, sum) (sum)
#endif
#ifndef STEP_END               /* the whole sum, of the columns from `first` on, before it is rounded */
#define STEP_END(x, sum, first) (sum)
#endif
#ifndef STEP_MORE              /* what a build may do once more: a tenth of the columns */
#define STEP_MORE(work) ((void)0)
#endif

#endif
