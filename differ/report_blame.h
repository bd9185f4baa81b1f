/* report_blame.h - the pattern of the bad ops and the first of them, in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_BLAME_H
#define TD_DIFFER_REPORT_BLAME_H

#include "common/json.h"
#include "differ/blame.h"

/* Write the member "blame": null when b is NULL, because no op is bad. */
void td_blame_write_json(struct td_jw *w, const struct td_blame *b, const struct td_judged_ops *ops);

#endif
