/* report_smoke.h - the text of a smoke test: one line, and the answers when they are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_SMOKE_H
#define TD_REPORT_SMOKE_H

#include "report/report.h"

/* report : of differ --smoke, or a broken one. TD_ENOMEM: there was no memory for the text; the line that was printed says
 * failed. */
int td_report_print_smoke(const cJSON *report, FILE *out, bool verbose);

#endif
