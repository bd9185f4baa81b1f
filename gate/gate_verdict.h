/* gate_verdict.h - the end of a run: what the verdict means for the exit code, the files, the text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_VERDICT_H
#define TD_GATE_VERDICT_H

#include "gate/gate_options.h"

/* The exit code of a report: that of its verdict, but regressions of a kind that the user does not
 * want to fail on do not count. What else a report found still counts: a SLOWER one that is
 * inconclusive otherwise is inconclusive with --fail-on wrong. */
int td_gate_exit(const cJSON *report, enum td_fail_on fail_on);

/* Write the files that were asked for, print the text, and return the exit code. A file that cannot
 * be written makes the run broken.
 *   files_fit : no file was refused before; the report says so otherwise
 *   report    : replaced when a file cannot be written; NULL in it: out of memory */
int td_gate_finish(const struct td_gate_options *o, bool files_fit, cJSON **report);

#endif
