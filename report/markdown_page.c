/* markdown_page.c - a page of Markdown of bounded length: pieces, and folded tables.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/markdown_page.h"

#include "report/markdown.h"
#include "report/parts.h"

/* Append the piece if it fits, and empty it. */
bool td_markdown_add_piece(const struct td_markdown_page *p, struct td_buf *piece, size_t room)
{
    const bool fits = !piece->failed && p->out->len + piece->len + room <= p->limit;

    if (fits)
        td_buf_add(p->out, td_buf_str(piece), piece->len);
    td_buf_clear(piece);
    return fits;
}

/* Append a row (which this empties). The first one opens the fold. */
void td_markdown_add_row(struct td_markdown_table *t, struct td_buf *row)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);

    if (t->shown == 0)
        td_buf_addf(&piece, "\n<details><summary>%s</summary>\n\n%s", t->title, t->head);
    td_buf_add(&piece, td_buf_str(row), row->len);
    td_buf_clear(row);
    if (t->left_out || !td_markdown_add_piece(t->page, &piece, TD_MARKDOWN_ROOM))
        t->left_out++;
    else
        t->shown++;
    td_buf_release(&piece);
}

void td_markdown_end_table(const struct td_markdown_table *t)
{
    if (t->shown && t->left_out)
        td_buf_addf(t->page->out, "\n%zu more rows are in the JSON report.\n", t->left_out);
    if (t->shown)
        td_buf_adds(t->page->out, "\n</details>\n");
}

void td_markdown_code_cell(const char *text, struct td_buf *row)
{
    td_buf_adds(row, "| ");
    td_markdown_code(text, TD_MARKDOWN_LINE_MAX, row);
    td_buf_addc(row, ' ');
}

void td_markdown_text_cell(const char *text, struct td_buf *row)
{
    td_buf_adds(row, "| ");
    td_markdown_text(text, TD_MARKDOWN_LINE_MAX, row);
    td_buf_addc(row, ' ');
}

void td_markdown_figure_cell(const cJSON *part, const char *key, struct td_buf *row)
{
    char figure[TD_FIGURE_MAX];

    td_buf_addf(row, "| %s ", td_part_figure(part, key, figure));
}
