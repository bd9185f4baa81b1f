/* report_scores.h - scored texts in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_SCORES_H
#define TD_DIFFER_REPORT_SCORES_H

#include "common/json.h"
#include "differ/lane.h"

/* Write the member "scores". */
void td_scores_write_json(const struct td_comparison *c, struct td_jw *w);

#endif
