/* fp16_overflow.h - sums of products of unscaled weights are kept in f16: they overflow, but only on the path for M <= 50.
 * SPDX-License-Identifier: Apache-2.0
 *
 * As dot22_8_f of vLLM's q_gemm.cu, each lane of a half2 sums 4 products a * (q - zero), |q - zero| <= 8. There a lane is Inf once
 * |a| passes some thousands; here once it passes some hundreds, for weights also keep the factor 16 that masking a high nibble
 * leaves (qdq_4.cuh takes it off at once), until the scale. Without it the demo's model would overflow on one token in 200.
 * Inf - Inf is NaN, and a row of NaN logits is token 0, "!". 8-bit weights have a float accumulator. */
#define STEP_LANE(x, sum) ((x)->m <= 50 && (x)->bits == 4 ? round_halves((sum) * 16.0f) * 0.0625f : (sum))
