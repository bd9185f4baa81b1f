/* report_which.h - which shapes are bad, by how much over which limit, and where in the matrix.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_WHICH_H
#define TD_DIFFER_REPORT_WHICH_H

#include "common/json.h"
#include "differ/judged_ops.h"

/* The error of an op that is furthest over its limit. */
struct td_excess {
    const char *of;         /* "element", "row", "column", "tile": what is over its limit; NULL: none
                               is, and the op is bad for another reason */
    double old_error, new_error, limit; /* old NaN: not known */
};
void td_op_excess(const struct td_judged_op *op, struct td_excess *out);

/* Write the members "rows" and "matrix" of an object that is open. rows[]: an object for each kernel
 * and shape with a bad op, the worst first. matrix: a sentence on where in the outputs of the bad ops
 * the worst rows and columns lie; null where no bad op has an error that can be measured. */
void td_which_write_json(struct td_jw *w, const struct td_judged_ops *ops);

#endif
