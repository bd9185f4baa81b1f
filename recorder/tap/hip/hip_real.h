/* hip_real.h - the real functions of libamdhip64, for thousands of callers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_HIP_HIP_REAL_H
#define TD_RECORDER_TAP_HIP_HIP_REAL_H

#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

/* As tap_real_find(), for functions with thousands of callers: each kernel has a stub of its own
 * that calls. which: a number of s's own, below 32. */
void *tap_hip_real(struct tap_symbol *s, unsigned which, const void *caller);

#pragma GCC visibility pop
#endif
