/* store_rounded.h - from double to a tensor's type, in one rounding.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_STORE_ROUNDED_H
#define TD_KERNELS_OPS_STORE_ROUNDED_H

#include <stdbool.h>
#include <stdint.h>

#include "model/dtype.h"

/* Can numbers be stored as this type? F32, F16, BF16, F8_E4M3, F8_E5M2, I8, I32. */
bool td_can_store_rounded(enum td_dtype dt);
/* Store d as element i, to nearest, ties to even. A float of 8 bits or an integer that d is too large for is
 * the largest one; NaN becomes NaN, or 0 where the type has none. */
void td_store_rounded(enum td_dtype dt, void *base, int64_t i, double d);
/* What d is then. */
double td_rounded_to(enum td_dtype dt, double d);

#endif
