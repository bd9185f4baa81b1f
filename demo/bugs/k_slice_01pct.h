/* k_slice_01pct.h - the scales of the second group are 0.1 % too large, so with groups of 128 the products of
 * K = 128 to 255 are. SPDX-License-Identifier: Apache-2.0 */
#define STEP_SCALE(x, s) (group == 1 ? (s) * 1.001f : (s)) /* in take_group() */
