/* op_judge_item.h - judge the runs of one op, whose reference is known.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_JUDGE_ITEM_H
#define TD_REPLAYER_OP_JUDGE_ITEM_H

#include "kernels/ops/op.h"
#include "replayer/op_item.h"

enum td_judged_side { TD_SIDE_RECORDED, TD_SIDE_CANDIDATE, TD_SIDE_BASELINE, TD_SIDES };

/* Judge all sides of an item: fill what it has once it is judged. A run that broke a rule of its output fails the item.
 *   ref : of each side; NULL where its rounding has no reference
 * TD_OK, TD_ENOMEM, TD_EINVAL: the output does not fit the reference. */
int td_op_judge_item(struct td_op_item *it, const struct td_op_ref *const ref[TD_SIDES], struct td_error *err);

#endif
