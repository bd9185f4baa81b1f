/* excerpt.c - quote a piece of a text on one line, safe for a terminal.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/excerpt.h"

#include "common/json.h"

void td_excerpt(const char *text, size_t len, size_t at, size_t before, size_t after,
                struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(1 << 16);
    size_t from = at > before ? at - before : 0, to = at + after < len ? at + after : len, i;

    while (from > 0 && from < len && ((unsigned char)text[from] & 0xC0) == 0x80)
        from--;
    while (to < len && ((unsigned char)text[to] & 0xC0) == 0x80)
        to++;
    if (from < to)
        td_utf8_clean(text + from, to - from, &clean);
    td_buf_adds(out, from ? "...\"" : "\"");
    for (i = 0; i < clean.len; i++) {
        unsigned char c = (unsigned char)clean.data[i];

        if (c == '\n')
            td_buf_adds(out, "\\n");
        else if (c == '\t')
            td_buf_adds(out, "\\t");
        else if (c < 0x20 || c == 0x7F ||
                 (c == 0xC2 && i + 1 < clean.len && (unsigned char)clean.data[i + 1] < 0xA0))
            td_buf_addf(out, "\\x%02x", c == 0xC2 ? (unsigned char)clean.data[++i] : c);
        else
            td_buf_addc(out, (char)c);
    }
    td_buf_adds(out, to < len ? "\"..." : "\"");
    td_buf_release(&clean);
}
