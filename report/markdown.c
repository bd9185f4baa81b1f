/* markdown.c - texts from outside in GitHub's flavour of Markdown.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/markdown.h"

#include <string.h>

#include "common/clean.h"

#define UNSEEN "\xE2\x80\x8B" /* U+200B, zero width space */

static const char *entity_of(char c)
{
    return c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
}

/* Append one character of prose. p points at it; before it stands `last`. */
static void add_prose(const char *p, char last, struct td_buf *out)
{
    if (*p == '<' || *p == '>' || *p == '&')
        td_buf_adds(out, entity_of(*p));
    else if (*p == '@' || *p == '#') /* GitHub looks for these in the finished page */
        td_buf_addf(out, "%s%c" UNSEEN, *p == '#' ? "\\" : "", *p);
    else if (*p == ':' && p[1] == '/')
        td_buf_adds(out, ":" UNSEEN);
    else if (*p == '.' && (last == 'w' || last == 'W'))
        td_buf_adds(out, UNSEEN ".");
    else if (strchr("\\`*_[]{}|~!$", *p))
        td_buf_addf(out, "\\%c", *p);
    else if (!last && strchr("+-=", *p)) /* no list, no underline of a heading */
        td_buf_addf(out, "\\%c", *p);
    else
        td_buf_addc(out, *p);
}

void td_markdown_text(const char *text, size_t max, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(max * 8 + 16);
    const char *p, *first;
    size_t digits;

    td_clean_line(text, max, &clean);
    first = td_buf_str(&clean) + strspn(td_buf_str(&clean), " ");
    digits = strspn(first, "0123456789");
    for (p = first; *p; p++) {
        if (digits && p == first + digits && strchr(".)", *p) &&
            (p[1] == ' ' || !p[1])) /* no numbered list */
            td_buf_addc(out, '\\');
        add_prose(p, p > first ? p[-1] : '\0', out);
    }
    td_buf_release(&clean);
}

void td_markdown_html(const char *text, size_t max, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(max * 8 + 16);
    const char *p;

    td_clean_line(text, max, &clean);
    for (p = td_buf_str(&clean); *p; p++) {
        if (strchr("<>&", *p))
            td_buf_adds(out, entity_of(*p));
        else if (*p == '@' || *p == '#')
            td_buf_addf(out, "%c" UNSEEN, *p);
        else
            td_buf_addc(out, *p);
    }
    td_buf_release(&clean);
}

static size_t longest_run(const char *text, char c)
{
    size_t longest = 0, run = 0;

    for (; *text; text++) {
        run = *text == c ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void add_times(const char *s, size_t n, struct td_buf *out)
{
    while (n--)
        td_buf_adds(out, s);
}

void td_markdown_code(const char *text, size_t max, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(max * 8 + 16);
    const char *p;
    size_t fence, slashes = 0;

    td_clean_line(text, max, &clean);
    p = td_buf_str(&clean);
    if (*p) {
        fence = longest_run(p, '`') + 1;
        add_times("`", fence, out);
        if (fence > 1) /* else a backtick at an end would join the fence */
            td_buf_addc(out, ' ');
        for (; *p; p++) {
            if (*p == '|') /* a cell ends at a pipe with an even number of backslashes in front */
                td_buf_adds(out, slashes % 2 ? "\\\\" : "\\");
            td_buf_addc(out, *p);
            slashes = *p == '\\' ? slashes + 1 : 0;
        }
        if (fence > 1)
            td_buf_addc(out, ' ');
        add_times("`", fence, out);
    }
    td_buf_release(&clean);
}

void td_markdown_block(const char *command, size_t max, const char *indent, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(max * 8 + 16);
    size_t fence;

    td_clean_line(command, max, &clean);
    fence = longest_run(td_buf_str(&clean), '`') + 1;
    fence = fence < 3 ? 3 : fence;
    td_buf_adds(out, indent);
    add_times("`", fence, out);
    td_buf_addf(out, "sh\n%s%s\n%s", indent, td_buf_str(&clean), indent);
    add_times("`", fence, out);
    td_buf_addc(out, '\n');
    td_buf_release(&clean);
}
