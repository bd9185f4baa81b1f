/* reports.h - a comparison as a report. Every lane writes its part.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORTS_H
#define TD_DIFFER_REPORTS_H

#include "common/buf.h"
#include "differ/comparison.h"

/* Append "verdict: regressed tokens=12/60 collapsed=3 ..." without a line feed. Figures of lanes
 * that were not asked for are left out. */
void td_report_verdict_line(const struct td_comparison *c, struct td_buf *out);
/* The comparison as a report (report/report.h). The caller frees it. NULL: TD_ELIMIT, TD_ENOMEM. */
cJSON *td_comparison_report(const struct td_comparison *c, struct td_error *err);

#endif
