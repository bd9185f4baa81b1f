/* markdown_tables.h - the folded tables of a comparison in Markdown.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_MARKDOWN_TABLES_H
#define TD_REPORT_MARKDOWN_TABLES_H

#include "report/markdown_page.h"

/* Append the tables of ops, prompts, speed and notes, of the lanes that were asked for. */
void td_markdown_add_tables(const struct td_markdown_page *p, const cJSON *report);

#endif
