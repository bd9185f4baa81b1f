/* excerpt.c - quote a piece of a text on one line, safe for a terminal.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/excerpt.h"

#include "common/clean.h"

void td_excerpt(const char *text, size_t len, size_t at, size_t before, size_t after,
                struct td_buf *out)
{
    size_t from = at > before ? at - before : 0, to = at + after < len ? at + after : len;

    while (from > 0 && from < len && ((unsigned char)text[from] & 0xC0) == 0x80)
        from--;
    while (to < len && ((unsigned char)text[to] & 0xC0) == 0x80)
        to++;
    td_buf_adds(out, from ? "...\"" : "\"");
    if (from < to)
        td_clean_bytes(text + from, to - from, out);
    td_buf_adds(out, to < len ? "\"..." : "\"");
}
