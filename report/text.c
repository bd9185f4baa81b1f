/* text.c - lines of a text for a terminal: cleaned, wrapped, never wider than 100 columns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/clean.h"

/* ---- width ----------------------------------------------------------------------------------- */

static uint32_t code_point(const char *s, int len)
{
    const unsigned char *u = (const unsigned char *)s;
    uint32_t c = len == 1 ? u[0] : len == 2 ? u[0] & 0x1F : len == 3 ? u[0] & 0x0F : u[0] & 0x07;
    int i;

    for (i = 1; i < len; i++)
        c = c << 6 | (u[i] & 0x3F);
    return c;
}

/* The columns of one character: Unicode's East Asian Width W and F take two, marks that stand on
 * another character none. */
static int width_of_code(uint32_t c)
{
    static const uint32_t WIDE[][2] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                       {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                       {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1FAFF},
                                       {0x20000, 0x3FFFD}};
    static const uint32_t NONE[][2] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF},
                                       {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
    size_t i;

    for (i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        if (c >= NONE[i][0] && c <= NONE[i][1])
            return 0;
    for (i = 0; i < sizeof WIDE / sizeof WIDE[0]; i++)
        if (c >= WIDE[i][0] && c <= WIDE[i][1])
            return 2;
    return 1;
}

/* The next character of s: its bytes, or 1 and *bad where it must not reach a terminal. */
static int next_char(const char *s, size_t left, int *width, bool *bad)
{
    const int len = td_utf8_seq(s, left);
    uint32_t c;

    *width = 1;
    *bad = len <= 0;
    if (*bad)
        return 1;
    c = code_point(s, len);
    /* controls; ends of lines; changes of direction; what is no character */
    *bad = c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) || c == 0x061C ||
           (c >= 0x200E && c <= 0x200F) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           (c & 0xFFFE) == 0xFFFE;
    *width = *bad ? 1 : width_of_code(c);
    return len;
}

int td_text_width(const char *s)
{
    size_t left = strlen(s);
    int total = 0, width, len;
    bool bad;

    for (; left; s += len, left -= (size_t)len) {
        len = next_char(s, left, &width, &bad);
        total += width;
    }
    return total;
}

/* Append characters of s[0..n) while they fit. Returns how many bytes of s were taken. */
static size_t take(struct td_buf *out, const char *s, size_t n, int columns, int *used)
{
    size_t at = 0;
    int width, len;
    bool bad;

    for (*used = 0; at < n; at += (size_t)len, *used += width) {
        len = next_char(s + at, n - at, &width, &bad);
        if (*used + width > columns)
            break;
        if (bad)
            td_buf_addc(out, '?');
        else
            td_buf_add(out, s + at, (size_t)len);
    }
    return at;
}

int td_text_clip(struct td_buf *out, const char *s, int columns)
{
    const size_t n = strlen(s);
    int used, dots = columns < 3 ? columns : 3;

    if (td_text_width(s) <= columns) {
        take(out, s, n, columns, &used);
        return used;
    }
    take(out, s, n, columns - dots, &used);
    td_buf_add(out, "...", (size_t)dots);
    return used + dots;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void add_blanks(struct td_buf *out, int n)
{
    while (n-- > 0)
        td_buf_addc(out, ' ');
}

/* Begin a line: head, or blanks. */
static void begin_line(struct td_buf *out, const char *head, int indent)
{
    add_blanks(out, indent - td_text_clip(out, head, indent));
}

/* CI servers take some lines of a log for commands: "::name::" behind blanks only, "##[name]" and
 * "##vso[name]" anywhere in a line. We print none, so what looks like one is foreign text that a
 * line was broken before; its first character becomes '?'. */
static void disarm_ci_command(char *line, size_t len)
{
    size_t i = 0;

    while (i < len && line[i] == ' ')
        i++;
    if (len - i >= 2 && memcmp(line + i, "::", 2) == 0)
        line[i] = '?';
    for (; i + 3 <= len; i++)
        if (td_is_ci_command(line + i, len - i))
            line[i] = '?';
}

void td_text_end_line(struct td_buf *out)
{
    size_t start;

    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    for (start = out->len; start && out->data[start - 1] != '\n'; start--)
        ;
    if (out->len)
        disarm_ci_command(out->data + start, out->len - start);
    td_buf_addc(out, '\n');
}

/* How many bytes of s fit into a line of `columns`, broken behind a word; a word that is wider is
 * broken inside. */
static size_t fitting(const char *s, int columns)
{
    size_t n = strlen(s), at = 0, word_end = 0;
    int used = 0, width, len;
    bool bad;

    while (at < n) {
        len = next_char(s + at, n - at, &width, &bad);
        if (s[at] == ' ' && at > 0 && s[at - 1] != ' ')
            word_end = at;
        if (used + width > columns)
            return word_end ? word_end : at ? at : (size_t)len;
        used += width;
        at += (size_t)len;
    }
    return n;
}

static int wrap(struct td_buf *out, const char *head, int indent, int more, const char *words,
                int max_lines)
{
    int lines = 0, used, columns = TD_TEXT_COLUMNS - indent;
    size_t n;

    begin_line(out, head, indent);
    for (;;) {
        n = fitting(words, columns);
        if (++lines == max_lines && words[n] != '\0') { /* there is more than fits */
            take(out, words, fitting(words, columns - 4), columns - 4, &used);
            td_buf_adds(out, " ...");
            td_text_end_line(out);
            return lines;
        }
        take(out, words, n, columns, &used);
        td_text_end_line(out);
        words += n;
        while (*words == ' ')
            words++;
        if (!*words)
            return lines;
        begin_line(out, "", indent + more);
        columns = TD_TEXT_COLUMNS - indent - more;
    }
}

int td_text_wrap(struct td_buf *out, const char *head, int indent, const char *words,
                 int max_lines)
{
    return wrap(out, head, indent, 0, words, max_lines);
}

int td_text_item(struct td_buf *out, const char *head, int indent, const char *words,
                 int max_lines)
{
    return wrap(out, head, indent, 2, words, max_lines);
}

/* The end of the argument at s. Blanks in double quotes belong to it. */
static const char *end_of_argument(const char *s)
{
    bool quoted = false;

    for (; *s && (*s != ' ' || quoted); s++) {
        quoted ^= *s == '"';
        s += *s == '\\' && s[1];
    }
    return s;
}

static int width_of_part(const char *s, const char *end)
{
    struct td_buf part = TD_BUF_INIT(TD_TEXT_MAX);
    int width;

    td_buf_add(&part, s, (size_t)(end - s));
    width = td_text_width(td_buf_str(&part));
    td_buf_release(&part);
    return width;
}

/* The end of the last argument that ends within `columns`; s itself: the first one does not. */
static const char *fitting_arguments(const char *s, int columns)
{
    const char *end = s, *next = end_of_argument(s);

    while (width_of_part(s, next) <= columns) {
        end = next;
        if (!*next)
            break;
        next = end_of_argument(next + 1);
    }
    return end;
}

/* An argument that is wider than a line is broken inside: a shell joins what stands on both sides
 * of a backslash, if no blank comes between. Returns how many bytes of s are left out. */
static size_t break_argument(struct td_buf *out, const char *s, int columns)
{
    int used;
    size_t n = take(out, s, (size_t)(end_of_argument(s) - s), columns - 1, &used);

    td_buf_adds(out, "\\\n");
    return n;
}

int td_text_command(struct td_buf *out, const char *head, int indent, const char *command)
{
    const char *end;
    int lines = 1, used, columns = TD_TEXT_COLUMNS - indent;

    begin_line(out, head, indent);
    for (;;) {
        end = td_text_width(command) <= columns ? strchr(command, '\0')
                                                : fitting_arguments(command, columns - 2);
        if (end == command && *command) {
            command += break_argument(out, command, columns);
            columns = TD_TEXT_COLUMNS;
        } else {
            take(out, command, (size_t)(end - command), TD_TEXT_COLUMNS, &used);
            command = end;
            if (!*command) {
                td_text_end_line(out);
                return lines;
            }
            td_buf_adds(out, " \\\n");
            command++;
            begin_line(out, "", indent);
            columns = TD_TEXT_COLUMNS - indent;
        }
        lines++;
    }
}

const char *td_text_number(const cJSON *v, char out[TD_TEXT_NUMBER])
{
    const double x = td_json_num(v, NAN);

    if (!v || cJSON_IsNull(v))
        snprintf(out, TD_TEXT_NUMBER, "?");
    else if (isnan(x))
        snprintf(out, TD_TEXT_NUMBER, "NaN");
    else if (isinf(x))
        snprintf(out, TD_TEXT_NUMBER, "%sInf", x < 0 ? "-" : "");
    else
        snprintf(out, TD_TEXT_NUMBER, "%.3g", x);
    return out;
}
