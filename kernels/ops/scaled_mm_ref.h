/* scaled_mm_ref.h - the right answer of a product of 8-bit numbers, and the same in float.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_SCALED_MM_REF_H
#define TD_KERNELS_OPS_SCALED_MM_REF_H

#include "kernels/ops/scaled_mm_op.h"

/* Without the bias: results and magnitudes, [m, n] each. The numbers that are multiplied are stored
 * exactly, so R1 is R0. Of integers, whose sum is exact, mag is the magnitude of that sum: only its
 * scaling rounds. TD_ENOMEM. */
int td_scaled_mm_ref(const struct td_scaled_mm *x, double *r0, double *mag, struct td_error *err);

/* Floats that td_scaled_mm_f32() wants as work. */
size_t td_scaled_mm_f32_work(const struct td_scaled_mm *x);
/* Write C: 8-bit floats widened and summed in float, block by block; integers summed exactly. */
void td_scaled_mm_f32(const struct td_scaled_mm *x, float *work);

#endif
