/* report_ops.h - replayed ops in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_OPS_H
#define TD_DIFFER_REPORT_OPS_H

#include "common/json.h"
#include "differ/lane.h"
#include "differ/numerics.h"

/* Write the member "ops". */
void td_ops_write_json(struct td_jw *w, const struct td_comparison *c,
                       const struct td_numerics *n);
/* Write one op as an object. key NULL: in an array. */
void td_op_write_json(struct td_jw *w, const char *key, const struct td_judged_op *op);
/* Append the lane in one line; nothing when no op is bad. first_why: what is wrong with the first bad
 * op. */
void td_ops_headline(const struct td_judged_ops *ops, const struct td_numerics *n,
                     const char *first_why, struct td_buf *out);

#endif
