/* report_which.h - which shapes are bad, by how much over which limit, and where in the matrix.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_WHICH_H
#define TD_DIFFER_REPORT_WHICH_H

#include "common/json.h"
#include "differ/judged_ops.h"

/* Write the members "rows" and "matrix" of an object that is open. rows[]: an object for each kernel
 * and shape with a bad op, the worst first. matrix: a sentence on where in the outputs of the bad ops
 * the worst rows and columns lie; null where no bad op has an error that can be measured. */
void td_which_write_json(struct td_jw *w, const struct td_judged_ops *ops);

#endif
