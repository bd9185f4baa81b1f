/* honest_nofma.h - no bug: a product is rounded before it is added (no fused multiply-add).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only the products with a scale can tell: a * (q - zero) has 20 bits, which fp32 holds exactly, fused or not. */
#define STEP_SCALE_ADD(part, scale, sum) ((part) * (scale) + (sum))
