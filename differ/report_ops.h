/* report_ops.h - replayed ops in the text report, the JSON report and the JUnit report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_OPS_H
#define TD_DIFFER_REPORT_OPS_H

#include "common/json.h"
#include "differ/numerics.h"
#include "format/coverage.h"
#include "report/junit.h"
#include "report/page.h"

/* Text: print a line for each group of ops, the bad ops one by one, formats that changed, and
 * ops without a reference. */
void td_ops_print(const struct td_page *p, const struct td_numerics *n,
                  const struct td_judged_ops *ops);
/* JSON: write the member "ops". recorded: how many ops the baseline's fixture holds. */
void td_ops_write_json(struct td_jw *w, const struct td_numerics *n,
                       const struct td_judged_ops *ops, size_t recorded,
                       const struct td_coverage *coverage);
/* JSON: write one op as an object. key NULL: in an array. */
void td_op_write_json(struct td_jw *w, const char *key, const struct td_judged_op *op);
/* JUnit: add a case for each group of ops. */
void td_ops_add_cases(struct td_junit *junit, const struct td_numerics *n);

#endif
