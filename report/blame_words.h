/* blame_words.h - which ops are bad, and the first of them, in words: for the text and for
 * Markdown. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_BLAME_WORDS_H
#define TD_REPORT_BLAME_WORDS_H

#include <cjson/cJSON.h>

#include "common/buf.h"

/* blame: the member of a report. The words are not cleaned: names out of a fixture stand in them.
 */

/* Append the rule that separates bad ops from good ones: "K = 640: 128 of 128 bad ops, 0 of 136
 * good ones". The report has a member "blame". */
void td_blame_add_rule(const cJSON *report, struct td_buf *words);
/* Append the first bad op: its layer, kernel, sizes, prompt, and what is wrong. Nothing when there
 * is none. */
void td_blame_add_first(const cJSON *blame, struct td_buf *words);

/* The table of bad shapes: a row is an item of blame.rows. */
#define TD_BLAME_COLUMNS 8
const char *td_blame_column(int column); /* "kernel", "layer", "M" ... */
void td_blame_add_cell(const cJSON *row, int column, struct td_buf *out);

#endif
