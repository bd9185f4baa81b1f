/* unordered_f16.h - as unordered.h, and the sum is rounded to f16 after each block, as atomic adds of halves do.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/bugs/unordered.h"
#define STEP_BLOCK_END(x, sum) round_halves(sum)
