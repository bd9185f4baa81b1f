/* report_unfinished.h - what stands in the report files while a run is under way.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_UNFINISHED_H
#define TD_REPORT_UNFINISHED_H

#include "report/report.h"

/* Write the files that are asked for, before any work: a report that is broken, because the run
 * did not come to its end. So a run that is killed leaves a report, no "pass" of an earlier run
 * stays in its place, and a file that cannot be written is found out at once. Standard output,
 * pipes and devices are left alone. */
int td_report_write_unfinished(const char *tool, const struct td_report_outputs *o,
                               struct td_error *err);

#endif
