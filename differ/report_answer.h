/* report_answer.h - one answer, or two that differ, in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_ANSWER_H
#define TD_DIFFER_REPORT_ANSWER_H

#include "common/json.h"
#include "differ/align.h"

/* How many bytes the texts of a and b have in common from their start, down to a whole
 * character. */
size_t td_answers_common_prefix(const struct td_exchange *a, const struct td_exchange *b);
/* Write the answer's text around byte `at`, as a string. */
void td_answer_write_text(struct td_jw *w, const char *key, const struct td_exchange *x, size_t at);
/* Write the members prompt_id, category, repeat and stream, which name the answer. */
void td_answer_write_name(struct td_jw *w, const char *prompt_id, const char *category,
                          const struct td_exchange *x);

#endif
