/* bias_unsure.h - ops of which the data does not tell whether they have the bias of their kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A bias needs several ops to be seen. Where a group has too few, or a layer is too noisy, its ops are not
 * bad; but nobody knows that they are good, and a rule that separates bad ops from good ones (blame.h) must
 * not be made to spare them. */
#ifndef TD_DIFFER_BIAS_UNSURE_H
#define TD_DIFFER_BIAS_UNSURE_H

#include "differ/bias.h"

/* Mark the ops that are of no finding (td_judged_op.bias_unsure), unless they show that they lack the clearest
 * bias of their kernel: less than half of it, with 99 % confidence, all of their group together, or else those
 * of their layer. An output that has no such slice lacks it.
 *   b : of td_bias_measure() on the same ops
 * TD_OK, TD_ENOMEM. */
int td_bias_mark_unsure(struct td_judged_ops *candidate, const struct td_bias *b, struct td_error *err);

#endif
