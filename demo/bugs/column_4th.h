/* column_4th.h - every fourth output column is 0.1 % too large, and sums are rounded to f16 after each
 * block, in an order that changes, as in honest_halves.h: a fault that drowns in such a kernel's own errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/bugs/honest_halves.h"
#define STEP_SCALE(x, s) __extension__({ \
    vf scales_ = (s); \
    for (unsigned lane_ = 0; lane_ < WIDTH; lane_ += 4) \
        scales_[lane_] *= 1.001f; \
    scales_; \
})
