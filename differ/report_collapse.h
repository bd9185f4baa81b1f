/* report_collapse.h - collapsed answers in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_COLLAPSE_H
#define TD_DIFFER_REPORT_COLLAPSE_H

#include "common/json.h"
#include "differ/lane.h"

/* Write the member "collapse". */
void td_collapse_write_json(const struct td_comparison *c, struct td_jw *w);
/* The lane in one line. */
void td_collapse_headline(const struct td_comparison *c, struct td_buf *out);

#endif
