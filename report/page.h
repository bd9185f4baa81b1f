/* page.h - the text report on a terminal or in a file: titles and coloured words.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_PAGE_H
#define TD_REPORT_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#define TD_PAGE_SHOWN 5 /* lines shown of a list that may be long, without --verbose */

enum td_colour { TD_PLAIN, TD_GREEN, TD_YELLOW, TD_RED };

struct td_page {
    FILE *out;
    bool colour;  /* write ANSI escape sequences */
    bool verbose; /* show lists in full */
};

/* An empty line, then the title of a section (bold). */
void td_page_title(const struct td_page *p, const char *text);
/* Print text in a colour, padded with spaces to `width` columns, without a line feed. */
void td_page_paint(const struct td_page *p, enum td_colour colour, const char *text, int width);

#endif
