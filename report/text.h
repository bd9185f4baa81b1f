/* text.h - lines of a text for a terminal: cleaned, wrapped, never wider than 100 columns.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All texts are cleaned on the way in: control characters and bytes that are not UTF-8 become "?",
 * so that a name out of a fixture cannot command a terminal. */
#ifndef TD_REPORT_TEXT_H
#define TD_REPORT_TEXT_H

#include "common/buf.h"
#include "common/json.h"

#define TD_TEXT_COLUMNS 100
#define TD_TEXT_NUMBER 32
#define TD_TEXT_MAX ((size_t)1 << 28) /* bytes of a text report */

/* How many columns of a terminal a UTF-8 text takes: 2 for wide characters, 0 for combining
 * ones. */
int td_text_width(const char *s);
/* Append s, cleaned and at most `columns` wide; what does not fit is cut and ends in "...". Returns
 * the width. */
int td_text_clip(struct td_buf *out, const char *s, int columns);
/* End a line, without blanks at its end. */
void td_text_end_line(struct td_buf *out);
/* Append lines: `head`, filled up with blanks to `indent` columns, then the words, broken between
 * words; lines after the first begin with `indent` blanks. A head that is too wide is cut. What does
 * not fit into max_lines is cut and ends in "...". Returns how many lines. */
int td_text_wrap(struct td_buf *out, const char *head, int indent, const char *words,
                 int max_lines);
/* The same for an item of a list: the lines after its first have two blanks more. */
int td_text_item(struct td_buf *out, const char *head, int indent, const char *words,
                 int max_lines);
/* The same for a command of a shell: a line that goes on ends in a backslash, so that the command
 * can be copied. It is never cut. */
int td_text_command(struct td_buf *out, const char *head, int indent, const char *command);
/* Write a number of a report with three digits and return out: "0.98", "Inf", "NaN"; "?" when it is
 * not known. */
const char *td_text_number(const cJSON *v, char out[TD_TEXT_NUMBER]);

#endif
