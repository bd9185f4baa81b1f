/* text_table.h - a table of text whose columns line up and that is never wider than a line.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_TEXT_TABLE_H
#define TD_REPORT_TEXT_TABLE_H

#include "common/buf.h"

#define TD_TABLE_COLUMNS 12

struct td_table {
    struct td_buf cells; /* each ends in NUL */
    int n_columns, n_cells;
    const char *align;   /* a letter for each column: l left, r right */
    int indent;          /* blanks before each row */
};

/* align: borrowed; its length is the number of columns, at most TD_TABLE_COLUMNS. */
void td_table_init(struct td_table *t, const char *align, int indent);
/* Add the next cell; rows follow from the number of columns. */
__attribute__((format(printf, 2, 3)))
void td_table_add(struct td_table *t, const char *fmt, ...);
/* Append the rows, with two blanks between columns and none at a row's end. When the table is too
 * wide, one blank, and then its widest left-aligned columns are cut. Returns how many rows. */
int td_table_write(const struct td_table *t, struct td_buf *out);
void td_table_release(struct td_table *t);

#endif
