/* clean.c - make one clean line of a text that came from outside.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/clean.h"

#include <stdlib.h>
#include <string.h>

#include "common/hidden.h"
#include "common/json.h"

/* The code point of a sequence of 2 or 3 bytes that td_utf8_seq took; 0 for other lengths. */
static unsigned code_point(const unsigned char *u, int len)
{
    if (len == 2)
        return (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    return len == 3 ? (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu) : 0;
}

/* Characters that are not seen or change how others are shown: zero width, direction, line ends. */
static bool is_hidden(unsigned c)
{
    return (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2060 && c <= 0x206F) || c == 0x061C || c == 0xFEFF || c == 0xFFFE || c == 0xFFFF;
}

bool td_is_ci_command(const char *text, size_t len)
{
    return (len >= 3 && memcmp(text, "##[", 3) == 0) || (len >= 6 && memcmp(text, "##vso[", 6) == 0);
}

/* Append one character of len bytes (0: a byte that is not UTF-8). */
static void add_character(const char *s, int len, struct td_buf *out)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned c = len > 1 ? code_point(u, len) : u[0];

    if (len <= 0)
        td_buf_adds(out, "\xEF\xBF\xBD");
    else if (c == '\n' && len == 1)
        td_buf_adds(out, "\\n");
    else if (c == '\t' && len == 1)
        td_buf_adds(out, "\\t");
    else if ((len == 1 && (c < 0x20 || c == 0x7F)) || (len == 2 && c < 0xA0))
        td_buf_addf(out, "\\x%02x", c);
    else if (is_hidden(c) && len > 1)
        td_buf_addf(out, "\\u%04x", c);
    else
        td_buf_add(out, s, (size_t)len);
}

static void clean_bytes(const char *text, size_t len, struct td_buf *out)
{
    size_t i = 0;

    while (i < len) {
        int n = td_utf8_seq(text + i, len - i);

        if (td_is_ci_command(text + i, len - i))
            td_buf_adds(out, "\\x23");
        else
            add_character(text + i, n, out);
        i += n > 0 ? (size_t)n : 1;
    }
}

static void clean_json(const char *json, size_t len, struct td_buf *out)
{
    size_t i = 0;

    while (i < len) {
        const int n = td_utf8_seq(json + i, len - i);
        const unsigned char *u = (const unsigned char *)json + i;
        const unsigned c = n > 1 ? code_point(u, n) : u[0];

        if (td_is_ci_command(json + i, len - i) || (n == 1 && c == 0x7F) || (n == 2 && c < 0xA0))
            td_buf_addf(out, "\\u%04x", c);
        else if (n == 1)
            td_buf_addc(out, json[i]); /* control characters are escapes already */
        else
            add_character(json + i, n, out);
        i += n > 0 ? (size_t)n : 1;
    }
}

static void clean_line(const char *text, size_t len, size_t max, struct td_buf *out)
{
    size_t i = 0;

    while (i < len) {
        int n = td_utf8_seq(text + i, len - i);
        size_t step = n > 0 ? (size_t)n : 1;

        if (i + step > max) {
            td_buf_adds(out, "...");
            return;
        }
        if ((unsigned char)text[i] == 0xC0 && (unsigned char)text[i + 1] == 0x80) {
            td_buf_adds(out, "\\x00");
            step = 2;
        } else if (td_is_ci_command(text + i, len - i)) {
            td_buf_adds(out, "\\x23");
        } else {
            add_character(text + i, n, out);
        }
        i += step;
    }
}

/* The text as it may be shown: what must be hidden is overwritten in a copy, which the caller frees.
 * NULL: no memory for it, and nothing is shown. */
static const char *shown(const char *text, size_t len, char **copy, struct td_buf *out)
{
    *copy = NULL;
    if (!td_hidden_is_set() || !len)
        return text;
    *copy = td_hidden_copy(text, len);
    out->failed |= !*copy;
    return *copy;
}

void td_clean_bytes(const char *text, size_t len, struct td_buf *out)
{
    char *copy;
    const char *s = shown(text, len, &copy, out);

    if (s)
        clean_bytes(s, len, out);
    free(copy);
}

/* Outside of its strings JSON must stay what it is: a digit that was overwritten becomes 1, all else is as
 * it was. */
static void keep_numbers(const char *json, size_t len, char *copy)
{
    bool in_string = false;
    size_t i;

    for (i = 0; copy && i < len; i++) {
        if (!in_string && copy[i] != json[i])
            copy[i] = json[i] >= '0' && json[i] <= '9' ? '1' : json[i];
        if (json[i] == '"')
            in_string = !in_string;
        else if (in_string && json[i] == '\\' && i + 1 < len)
            i++;
    }
}

void td_clean_json(const char *json, size_t len, struct td_buf *out)
{
    char *copy;
    const char *s = shown(json, len, &copy, out);

    keep_numbers(json, len, copy);
    if (s)
        clean_json(s, len, out);
    free(copy);
}

void td_clean_line(const char *text, size_t max, struct td_buf *out)
{
    const size_t len = text ? strlen(text) : 0;
    char *copy;
    const char *s = shown(text, len, &copy, out);

    if (s)
        clean_line(s, len, max, out);
    free(copy);
}
