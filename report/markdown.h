/* markdown.h - texts from outside in GitHub's flavour of Markdown.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whatever a text holds, it adds no markup, no HTML, no link, no line and no cell of a table, and it
 * notifies nobody: a mention (@name) and a reference (#1) are broken by a character that is not
 * seen. Texts are cut after max bytes. */
#ifndef TD_REPORT_MARKDOWN_H
#define TD_REPORT_MARKDOWN_H

#include <stddef.h>

#include "common/buf.h"

/* Append the text as prose. */
void td_markdown_text(const char *text, size_t max, struct td_buf *out);
/* Append it as a code span, for a cell of a table too. Nothing for an empty text. */
void td_markdown_code(const char *text, size_t max, struct td_buf *out);
/* Append it for the inside of an HTML element, such as <summary>, where no Markdown is read. */
void td_markdown_html(const char *text, size_t max, struct td_buf *out);
/* Append it as a block of shell commands, with blanks in front of each line (within a list). */
void td_markdown_block(const char *command, size_t max, const char *indent, struct td_buf *out);

#endif
