/* judge_order.h - was an output added in the order that is expected of its kernel?
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where sums are kept with few bits the order of a sum changes what it loses, and a kernel may add
 * in another order than the one that is expected (td_op_ref.ordered) and be right. An output shows
 * by itself which it was: of the expected order all but single elements are, bit for bit, what
 * `ordered` becomes when it is rounded; of another as many as an error with the deviation of
 * slack / TD_JUDGE_ORDER_SPREAD leaves unchanged, or fewer. An output with clearly more than these
 * (TD_JUDGE_ORDER_CLEAR standard errors) is held against `ordered`, with no slack; any other against
 * r1, with the slack for any order. The figures are from simulated kernels
 * (docs/measurements/2026-11-fp8-sums.md). */
#ifndef TD_REPLAYER_JUDGE_ORDER_H
#define TD_REPLAYER_JUDGE_ORDER_H

#include "kernels/ops/op.h"

#define TD_JUDGE_ORDER_SPREAD 32 /* 4 is the deviation of independent errors; real ones are smaller */
#define TD_JUDGE_ORDER_CLEAR 4

/* The reference that an output is held against: *ref itself, or a view of it whose r1 is `ordered`.
 * A view borrows from ref and is not released.
 *   out, image : as of td_judge_output, which refuses what does not fit: then it is *ref */
struct td_op_ref td_judge_ref_of(const struct td_op_ref *ref, const struct td_tensor *out, const void *image);

/* Is it a view in the expected order? */
static inline bool td_judge_ref_is_ordered(const struct td_op_ref *ref)
{
    return ref->ordered && ref->r1 == ref->ordered;
}

#endif
