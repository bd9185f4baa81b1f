/* zero_off_by_one.h - one is added to the zero point once more than the format says.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_ZERO(x, z) ((z) + 1)
