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

/* Write a report over those that were written already: it says that one of them could not be. What
 * cannot be written is passed over. */
void td_report_write_over(const cJSON *report, const struct td_report_outputs *o);

/* After a usage error: write into the report files that the command line names that it was refused
 * (exit code 2), so that CI does not upload the reports of an earlier run. Options behind the error
 * count, too. A file that holds anything but a report of its format stays as it is. What cannot be
 * written is passed over: the error that is printed is that of the command line.
 *   cause : the sentence that was printed */
void td_report_write_refused(const char *tool, int argc, char **argv, const char *cause);

#endif
