/* scales_bf16_f16.h - scales are read with the 8 significant bits of a bf16, and sums are rounded as in
 * honest_halves.h. SPDX-License-Identifier: Apache-2.0 */
#include "demo/bugs/honest_halves.h"
#define STEP_SCALE(x, s) __extension__({ \
    vf scales_ = (s); \
    for (unsigned lane_ = 0; lane_ < WIDTH; lane_++) { \
        uint32_t bits_; \
        float scale_ = scales_[lane_]; \
        memcpy(&bits_, &scale_, sizeof bits_); \
        bits_ = (bits_ + 0x7fff + (bits_ >> 16 & 1)) & 0xffff0000u; \
        memcpy(&scale_, &bits_, sizeof scale_); \
        scales_[lane_] = scale_; \
    } \
    scales_; \
})
