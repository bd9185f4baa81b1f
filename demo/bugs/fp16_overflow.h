/* fp16_overflow.h - sums of products of unscaled weights are kept in f16: they overflow, but only on the path for M <= 50.
 * SPDX-License-Identifier: Apache-2.0
 *
 * As dot22_8_f of vLLM's q_gemm.cu: each half of a half2 holds 4 products a * (q - zero), |q - zero| <= 8, so that it is Inf
 * once |a| is around 2047; Inf - Inf is NaN, and a row of NaN logits is token 0, "!". 8-bit weights have a float accumulator. */
#define STEP_LANE(x, sum) ((x)->m <= 50 && (x)->bits == 4 ? round_halves(sum) : (sum))
