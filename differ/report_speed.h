/* report_speed.h - rows of speed in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_SPEED_H
#define TD_DIFFER_REPORT_SPEED_H

#include "common/json.h"
#include "differ/lane.h"

/* Write the member "speed". */
void td_speed_write_json(const struct td_comparison *c, struct td_jw *w);
/* Write the members "speed_change", the effect on the total (0.02: 2 % slower; null: not timed),
 * and "speed_of", what it was measured on. */
void td_speed_write_change(const struct td_comparison *c, struct td_jw *w);
/* The lane in one line. */
void td_speed_headline(const struct td_comparison *c, struct td_buf *out);

#endif
