/* csv_text.h - a text from outside as a cell of a table in CSV (RFC 4180).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_CSV_TEXT_H
#define TD_REPORT_CSV_TEXT_H

#include "common/buf.h"

/* Append a text from outside: one line, in quotes where RFC 4180 wants them, with an apostrophe in
 * front of what would be a formula. */
void td_csv_text(const char *text, struct td_buf *out);

#endif
