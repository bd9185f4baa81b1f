/* honest_nofma.h - no bug: products are rounded before they are added (no fused multiply-add).
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_MADD(a, b, c) ((a) * (b) + (c))
