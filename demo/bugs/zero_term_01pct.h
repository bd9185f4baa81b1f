/* zero_term_01pct.h - zero points are 0.1 % too large.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_ZERO(x, z) ((z) * 1.001f)
