/* dot_f32.h - what the portable CPU variants share: a dot product in float, and storing its result.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_DOT_F32_H
#define TD_KERNELS_OPS_DOT_F32_H

#include <stdint.h>

#include "model/dtype.h"

/* The dot product of a and b, [k] each, in eight partial sums, without FMA. */
float td_dot_f32(const float *a, const float *b, int64_t k);
/* Store f as element i of an array of dt (F32, F16 or BF16), rounded to nearest even. */
void td_store_f32(enum td_dtype dt, void *base, int64_t i, float f);

#endif
