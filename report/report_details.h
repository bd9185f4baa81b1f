/* report_details.h - what the text report shows with --verbose, section by section.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_REPORT_DETAILS_H
#define TD_REPORT_REPORT_DETAILS_H

#include "common/buf.h"
#include "common/json.h"

/* Append all sections. Lists are shown in full. */
void td_report_add_details(struct td_buf *out, const cJSON *report);
/* The sections on ops: by groups, one by one, without a reference, formats; and the blame. */
void td_report_add_ops(struct td_buf *out, const cJSON *report);
/* The section on speed. */
void td_report_add_speed(struct td_buf *out, const cJSON *report);
/* The section on times in the terms of another tool, if these were asked for; in place without --verbose too. */
void td_report_add_terms(struct td_buf *out, const cJSON *report);
/* Say that a list goes on: "... 41 more of X; --json has all". n <= 0: nothing. */
void td_report_add_more(struct td_buf *out, long long n, const char *of);
/* Append an empty line and the title of a section. */
void td_report_add_title(struct td_buf *out, const char *title);

#endif
