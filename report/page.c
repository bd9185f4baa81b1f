/* page.c - the text report on a terminal or in a file: titles and coloured words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

static const char *const COLOURS[] = {"", "\033[32m", "\033[33m", "\033[31m"};

void td_page_title(const struct td_page *p, const char *text)
{
    fprintf(p->out, "\n%s%s%s\n", p->colour ? "\033[1m" : "", text, p->colour ? "\033[0m" : "");
}

void td_page_paint(const struct td_page *p, enum td_colour colour, const char *text, int width)
{
    fprintf(p->out, "%s%-*s%s", p->colour ? COLOURS[colour] : "", width, text,
            p->colour && colour != TD_PLAIN ? "\033[0m" : "");
}
