/* zeros_g128.h - for group size 128 every result is zero.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_SCALE(x, s) ((x)->group_size == 128 ? (s) * 0.0f : (s))
