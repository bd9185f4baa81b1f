/* speed_ops.h - pairs of timings of single ops, as rows of kernel, shape and class of M.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_SPEED_OPS_H
#define TD_DIFFER_SPEED_OPS_H

#include "differ/judged_ops.h"
#include "differ/policy.h"
#include "differ/speed.h"

/* Add a row for each group of ops that hold pairs, and rows of totals. TD_OK or TD_ENOMEM. */
int td_speed_ops(const struct td_judged_ops *candidate, struct td_speed *out, struct td_error *err);
/* The smallest slowdown of a row of ops that counts, and what its interval must lie above. */
double td_speed_ops_effect(const struct td_speed_row *row, const struct td_policy *policy);
double td_speed_ops_noise(const struct td_speed_row *row, const struct td_policy *policy);

#endif
