/* reports.h - the reports of a comparison: text, JSON, JUnit. Each asks every lane for its part.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORTS_H
#define TD_DIFFER_REPORTS_H

#include <stdio.h>

#include "common/buf.h"
#include "differ/comparison.h"

/* Append "verdict: regressed tokens=12/60 collapsed=3 ..." without a line feed. Figures of lanes
 * that were not asked for are left out. */
void td_report_verdict_line(const struct td_comparison *c, struct td_buf *out);
/* Print the report for a person. verbose: lists in full. */
void td_report_text(const struct td_comparison *c, FILE *out, bool colour, bool verbose);
/* Write everything that the text report holds and more (schema: docs/verdicts.md, "The JSON
 * report"). */
int td_report_json(const struct td_comparison *c, const char *path, struct td_error *err);
/* Write JUnit XML for CI: a case for each lane, prompt, group of ops and row of speed. */
int td_report_junit(const struct td_comparison *c, const char *path, struct td_error *err);

#endif
