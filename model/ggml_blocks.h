/* ggml_blocks.h - ggml's block formats: the values of a row of weights, and how kernels round activations first.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Layouts: ggml-common.h (block_q4_0 ... block_q6_K); values: dequantize_row_* in ggml-quants.c; activations: quantize_row_q8_0
 * and _q8_1 in ggml-cpu/arch/x86/quants.c (AVX and later), quantize_row_q8_K_ref, ggml_cpu_fp32_to_fp16 and _bf16; all of
 * llama.cpp as of 2026, little-endian. Everything here is exact: each number that the format holds is a double. */
#ifndef TD_MODEL_GGML_BLOCKS_H
#define TD_MODEL_GGML_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/dtype.h"

/* Can a row of W have this dtype: F32, F16, BF16 or a block format? */
bool td_ggml_is_weight(enum td_dtype dt);
/* Elements that share a minimum, a number that is added to them: 32 (Q4_1 Q5_1 Q4_K Q5_K), 16 (Q2_K; Q6_K: -32 times its
 * scale), 0: the format has none. */
int td_ggml_min_step(enum td_dtype dt);

/* A row of k weights, k a multiple of td_dtype_block(dt), as the kernels take it apart:
 *   w[i] = scaled[i] + min[i / step]      scaled : [k], min : [k / step], or not used where step is 0
 * NaN and Inf in a scale go where IEEE double arithmetic takes them. row needs no alignment. */
void td_ggml_split_row(enum td_dtype dt, const void *row, int64_t k, double *scaled, double *min);
/* The same, put together: w : [k]. */
void td_ggml_dequant_row(enum td_dtype dt, const void *row, int64_t k, double *w);

/* ---- activations ----------------------------------------------------------------------------- */

enum td_ggml_act { TD_ACT_NONE, TD_ACT_Q8_0, TD_ACT_Q8_1, TD_ACT_Q8_K, TD_ACT_F16, TD_ACT_BF16, TD_ACT_UNKNOWN };

enum td_ggml_act td_ggml_act_parse(const char *name);  /* "none" (or ""), "q8_0", "q8_1", "q8_K", "f16", "bf16" */
const char *td_ggml_act_name(enum td_ggml_act act);
enum td_ggml_act td_ggml_act_of(enum td_dtype weight); /* what ggml's CPU backend does to the activations of such weights */
int td_ggml_act_block(enum td_ggml_act act);           /* elements that are rounded together: 1, 32 or 256 */

/* A block of 32: q = nearest even of x * (127 / amax), d = half of amax / 127, s = half of (amax / 127) * sum of q.
 * x : [32] and q : [32]. What ggml does with NaN or Inf among x depends on their place; here d and s are NaN then. */
void td_ggml_quant_32(const float *x, uint16_t *d, uint16_t *s, int8_t *q);
/* A block of 256: d = 1 / (-127 / x of largest magnitude), q = nearest even of x / d as ggml computes it, at most 127. */
void td_ggml_quant_256(const float *x, float *d, int8_t *q);

/* A row of k activations, k a multiple of the block, as the kernel sees it.
 *   out  : [k] d * q, or x rounded to f16 or bf16
 *   step : 0, or the td_ggml_min_step() of the weights; then sums : [k / step], what the kernel multiplies a minimum with: the
 *          s of q8_1 (a half of its own, not the sum of out), else the exact sum of out */
void td_ggml_round_row(enum td_ggml_act act, const float *x, int64_t k, double *out, int step, double *sums);

/* The activations of a row whose codes are in doubt: x * (127 / amax) lies so near half-way between two integers that float32
 * decides which is nearest, and a kernel that multiplies with 1 / (amax / 127), as ggml's plain C does, may take the other one.
 *   by : [k] how far the two rounded values lie apart; 0 where the code is in no doubt
 * Returns how many are in doubt: of real activations about one in 50,000. */
int64_t td_ggml_row_doubts(enum td_ggml_act act, const float *x, int64_t k, double *by);

#endif
