/* csv_text.c - a text from outside as a cell of a table in CSV.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/csv_text.h"

#include <string.h>

#include "common/clean.h"

/* Would a spreadsheet take this text for a formula? The second row: the same characters at full
 * width, which East Asian spreadsheets accept. */
static bool looks_like_formula(const char *text)
{
    static const char *const WIDE[] = {"\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D",
                                       "\xEF\xBC\xA0"};
    size_t i;

    text += strspn(text, " ");
    if (*text && strchr("=+-@", *text))
        return true;
    for (i = 0; i < sizeof WIDE / sizeof WIDE[0]; i++)
        if (!strncmp(text, WIDE[i], 3))
            return true;
    return false;
}

void td_csv_text(const char *text, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(1 << 18);
    const char *p;

    if (looks_like_formula(text))
        td_buf_addc(&clean, '\'');
    td_clean_line(text, 30000, &clean); /* a cell of a spreadsheet holds 32767 characters */
    p = td_buf_str(&clean);
    if (!strpbrk(p, ",\"\r\n")) {
        td_buf_adds(out, p);
    } else {
        td_buf_addc(out, '"');
        for (; *p; p++) {
            if (*p == '"')
                td_buf_addc(out, '"');
            td_buf_addc(out, *p);
        }
        td_buf_addc(out, '"');
    }
    td_buf_release(&clean);
}
