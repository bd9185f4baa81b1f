/* report_tokens.h - answers that differ, in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_TOKENS_H
#define TD_DIFFER_REPORT_TOKENS_H

#include "common/json.h"
#include "differ/lane.h"

/* Write the member "tokens". */
void td_tokens_write_json(const struct td_comparison *c, struct td_jw *w);
/* Write the member "answers": how many are equal, and which share of their tokens; null where no
 * answer was compared. */
void td_tokens_write_answers(const struct td_comparison *c, struct td_jw *w);
/* The lane in one line. */
void td_tokens_headline(const struct td_comparison *c, struct td_buf *out);

#endif
