/* text_table.c - a table of text whose columns line up and that is never wider than a line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/text_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/text.h"

#define GAP 2         /* blanks between columns; 1 where the table is too wide */
#define LEAST_CUT 6   /* columns: no narrower is a column cut */
#define CELL_MAX 1024

void td_table_init(struct td_table *t, const char *align, int indent)
{
    memset(t, 0, sizeof *t);
    td_buf_init(&t->cells, TD_TEXT_MAX);
    t->align = align;
    t->indent = indent;
    t->n_columns = (int)strnlen(align, TD_TABLE_COLUMNS);
}

void td_table_add(struct td_table *t, const char *fmt, ...)
{
    char cell[CELL_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(cell, sizeof cell, fmt, ap);
    va_end(ap);
    td_buf_add(&t->cells, cell, strlen(cell) + 1);
    t->n_cells++;
}

/* How wide each column is: as its widest cell, cut where the row would be too wide with the
 * narrowest gap. Returns the gap. */
static int measure(const struct td_table *t, int width[TD_TABLE_COLUMNS])
{
    const char *cell = t->cells.data;
    int i, gap = GAP, total = t->indent - GAP;

    memset(width, 0, TD_TABLE_COLUMNS * sizeof *width);
    for (i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1) {
        const int w = td_text_width(cell);

        if (w > width[i % t->n_columns])
            width[i % t->n_columns] = w;
    }
    for (i = 0; i < t->n_columns; i++)
        total += width[i] + GAP;
    if (total > TD_TEXT_COLUMNS) {
        gap = GAP - 1;
        total -= t->n_columns - 1;
    }
    while (total > TD_TEXT_COLUMNS) {
        int widest = -1;

        for (i = 0; i < t->n_columns; i++)
            if (width[i] > LEAST_CUT &&
                (widest < 0 || (t->align[i] == 'l') > (t->align[widest] == 'l') ||
                 (t->align[i] == t->align[widest] && width[i] > width[widest])))
                widest = i;
        if (widest < 0)
            break;
        width[widest]--;
        total--;
    }
    return gap;
}

static void add_blanks(struct td_buf *out, int n)
{
    while (n-- > 0)
        td_buf_addc(out, ' ');
}

int td_table_write(const struct td_table *t, struct td_buf *out)
{
    int width[TD_TABLE_COLUMNS], i, gap;
    const char *cell = t->cells.data;

    if (!t->n_cells || t->cells.failed)
        return 0;
    gap = measure(t, width);
    for (i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1) {
        const int column = i % t->n_columns, last = column == t->n_columns - 1,
                  own = td_text_width(cell),
                  blanks = width[column] > own ? width[column] - own : 0;

        if (column == 0)
            add_blanks(out, t->indent);
        if (t->align[column] == 'r')
            add_blanks(out, blanks);
        td_text_clip(out, cell, width[column]);
        if (t->align[column] == 'l' && !last)
            add_blanks(out, blanks);
        if (last) {
            td_text_end_line(out);
        } else {
            add_blanks(out, gap);
        }
    }
    return t->n_cells / t->n_columns;
}

void td_table_release(struct td_table *t)
{
    td_buf_release(&t->cells);
}
