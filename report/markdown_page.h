/* markdown_page.h - a page of Markdown of bounded length: pieces, and folded tables.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_MARKDOWN_PAGE_H
#define TD_REPORT_MARKDOWN_PAGE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

#define TD_MARKDOWN_MAX      65000 /* bytes of a document: GitHub takes 65,536 characters */
#define TD_MARKDOWN_LINE_MAX 300   /* bytes of a sentence or a name from outside */
#define TD_MARKDOWN_ROOM     200   /* kept for the end of a table and of its fold */

/* What is written goes to out, which never grows longer than limit. */
struct td_markdown_page {
    struct td_buf *out;
    size_t limit;
};

/* Append the piece if it fits with `room` bytes to spare, and empty it. */
bool td_markdown_add_piece(const struct td_markdown_page *p, struct td_buf *piece, size_t room);

/* A folded table that is being written. */
struct td_markdown_table {
    const struct td_markdown_page *page;
    const char *title, *head; /* head: the lines above the rows */
    size_t shown, left_out;   /* rows so far; start with 0 */
};

/* Append a row (which this empties), unless it does not fit. The first one opens the fold. */
void td_markdown_add_row(struct td_markdown_table *t, struct td_buf *row);
/* Say how many rows are left out, and close the fold. A table without rows leaves nothing. */
void td_markdown_end_table(const struct td_markdown_table *t);

/* Append a cell to a row: a name as code, prose, a figure of a part of the report. */
void td_markdown_code_cell(const char *text, struct td_buf *row);
void td_markdown_text_cell(const char *text, struct td_buf *row);
void td_markdown_figure_cell(const cJSON *part, const char *key, struct td_buf *row);

#endif
