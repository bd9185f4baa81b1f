/* fronts.h - all fronts of the tap, a line each. Nothing in a front or in the core may include
 * this: only fronts.c, which links them in, and tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_FRONTS_H
#define TD_RECORDER_TAP_FRONTS_H

#include "recorder/tap/core/tap_front.h"

/* In the order in which they name the library that a server uses: the first that has seen calls
 * does. A GPU's kernels stand before torch, which every server with a GPU uses too. */
#define TAP_ALL_FRONTS(X) \
    X(td) \
    X(ggml) \
    X(cuda) \
    X(hip) \
    X(vllm) \
    X(torch)

#pragma GCC visibility push(hidden)
#define TAP_DECLARE_FRONT(front) extern const struct tap_front tap_front_##front;
TAP_ALL_FRONTS(TAP_DECLARE_FRONT)
#undef TAP_DECLARE_FRONT
#pragma GCC visibility pop

#endif
