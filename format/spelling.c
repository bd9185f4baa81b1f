/* spelling.c - read characters of a foreign text, however they are escaped.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/spelling.h"

#include <ctype.h>
#include <string.h>

#define MOST_BACKSLASHES 64 /* before one character: six JSON texts in one another */
#define MOST_LEVELS 8       /* of %2525..., &amp;amp;... */
#define ENTITY_MAX 8        /* "#x10FFFF" */

/* Read so many hexadecimal digits. NOTHING: they are none, and *at stays. */
static int read_hex(const char *s, size_t n, size_t *at, int digits, bool more)
{
    size_t i = *at;
    int v = 0, k;

    for (k = 0; k < digits; k++, i++) {
        if (i == n)
            return more ? TD_SPELLED_OPEN : TD_SPELLED_NOTHING;
        if (!isxdigit((unsigned char)s[i]))
            return TD_SPELLED_NOTHING;
        v = v * 16 + (isdigit((unsigned char)s[i]) ? s[i] - '0' : tolower((unsigned char)s[i]) - 'a' + 10);
    }
    *at = i;
    return v;
}

/* Behind a '%'. */
static int read_percent(const char *s, size_t n, size_t *at, bool more)
{
    int level, v = '%', c;

    for (level = 0; v == '%' && level < MOST_LEVELS; level++) {
        c = read_hex(s, n, at, 2, more);
        if (c == TD_SPELLED_OPEN)
            return c;
        if (c == TD_SPELLED_NOTHING)
            break;
        v = c;
    }
    return v;
}

/* The character of an entity's name, as "quot" or "#34". NOTHING: none. */
static int entity(const char *name, size_t n)
{
    static const struct { const char *name; int c; } NAMED[] = {{"amp", '&'}, {"quot", '"'}, {"lt", '<'}, {"gt", '>'}, {"apos", '\''}};
    bool hex = n > 1 && (name[1] == 'x' || name[1] == 'X');
    size_t i, from = hex ? 2 : 1;
    int v = 0;

    for (i = 0; i < sizeof NAMED / sizeof *NAMED; i++)
        if (strlen(NAMED[i].name) == n && !memcmp(NAMED[i].name, name, n))
            return NAMED[i].c;
    if (from >= n || *name != '#')
        return TD_SPELLED_NOTHING;
    for (i = from; i < n; i++) {
        if (!(hex ? isxdigit((unsigned char)name[i]) : isdigit((unsigned char)name[i])))
            return TD_SPELLED_NOTHING;
        v = v * (hex ? 16 : 10) + (isdigit((unsigned char)name[i]) ? name[i] - '0' : tolower((unsigned char)name[i]) - 'a' + 10);
    }
    return v;
}

/* Behind a '&'. */
static int read_entity(const char *s, size_t n, size_t *at, bool more)
{
    int level, v = '&', c;

    for (level = 0; v == '&' && level < MOST_LEVELS; level++) {
        size_t left = n - *at, most = left < ENTITY_MAX + 1 ? left : ENTITY_MAX + 1, len;

        for (len = 0; len < most && (isalnum((unsigned char)s[*at + len]) || s[*at + len] == '#'); len++)
            ;
        if (len == left && len <= ENTITY_MAX && more)
            return TD_SPELLED_OPEN;
        c = len < most && s[*at + len] == ';' ? entity(s + *at, len) : TD_SPELLED_NOTHING;
        if (c == TD_SPELLED_NOTHING)
            break;
        *at += len + 1;
        v = c;
    }
    return v;
}

int td_spelled(const char *s, size_t n, size_t *at, bool more)
{
    size_t i = *at;
    int backslashes, c;

    for (backslashes = 0; i < n && backslashes <= MOST_BACKSLASHES; backslashes++) {
        c = (unsigned char)s[i++];
        if (backslashes && (c == 'u' || c == 'x')) {
            int v = read_hex(s, n, &i, c == 'u' ? 4 : 2, more);

            c = v == TD_SPELLED_NOTHING ? c : v;
        }
        if (c == '%')
            c = read_percent(s, n, &i, more);
        if (c == '&')
            c = read_entity(s, n, &i, more);
        if (c == '\\')
            continue;
        if (c >= 0)
            *at = i;
        return c >= 0x80 ? TD_SPELLED_OTHER : c == '+' ? ' ' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    }
    return i == n && more ? TD_SPELLED_OPEN : TD_SPELLED_NOTHING;
}
