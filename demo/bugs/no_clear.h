/* no_clear.h - the output is not cleared before the sum: C = C + A * W.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_START(x, c) load_halves(c)
