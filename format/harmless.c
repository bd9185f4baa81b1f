/* harmless.c - look-ups in the list of what is kept without text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/harmless.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ID_MAX 200

static const struct member { const char *name; enum td_harmless kind; } MEMBERS[] = {
#define MEMBER(name, kind) {name, TD_HARMLESS_##kind},
#include "format/harmless.def"
};
static const char *const VALUES[] = {
#define VALUE(text) text,
#include "format/harmless.def"
};
static const char *const HEADERS[] = {
#define HEADER(name) name,
#include "format/harmless.def"
};
static const char *const HEADER_WORDS[] = {
#define HEADER_WORD(word) word,
#include "format/harmless.def"
};
static const char *const EVENTS[] = {
#define EVENT(name) name,
#include "format/harmless.def"
};
static const char *const REASONS[] = {
#define REASON(text) text,
#include "format/harmless.def"
};
static const char *const METRICS[] = {
#define METRIC(name) name,
#include "format/harmless.def"
};
static const char *const WORDS[] = {
#define WORD(word) word,
#include "format/harmless.def"
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef int compare_fn(const char *a, const char *b, size_t n);

/* Is a string of n bytes in a sorted list? */
static bool is_in(const char *const *list, size_t n_list, compare_fn *compare, const char *s, size_t n)
{
    size_t from = 0, to = n_list;

    while (from < to) {
        size_t at = from + (to - from) / 2, len = strlen(list[at]);
        int order = compare(s, list[at], n < len ? n : len);

        if (!order)
            order = n < len ? -1 : n > len;
        if (!order)
            return true;
        if (order < 0)
            to = at;
        else
            from = at + 1;
    }
    return false;
}

static int by_name(const void *name, const void *member)
{
    return strcmp(name, ((const struct member *)member)->name);
}

enum td_harmless td_harmless_member(const char *name)
{
    const struct member *m = bsearch(name, MEMBERS, COUNT(MEMBERS), sizeof *MEMBERS, by_name);

    return m ? m->kind : TD_HARMLESS_NO;
}

bool td_harmless_token_id(const char *s, size_t n)
{
    size_t i;

    if (n < 10 || n > 20 || memcmp(s, "token_id:", 9))
        return false;
    for (i = 9; i < n; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return true;
}

static bool is_no_number(const char *s, size_t n)
{
    return (n == 3 && !memcmp(s, "NaN", 3)) || (n == 8 && !memcmp(s, "Infinity", 8)) ||
           (n == 9 && !memcmp(s, "-Infinity", 9));
}

static bool is_time(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && isdigit((unsigned char)s[i]))
        i++;
    return n && i == n && n <= 19;
}

static bool is_id(const char *s, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !memchr("._:/+@-", s[i], 7))
            return false;
    return n <= ID_MAX;
}

bool td_harmless_string(enum td_harmless kind, const char *s, size_t n)
{
    switch (kind) {
    case TD_HARMLESS_TEXT: return true;
    case TD_HARMLESS_LABEL: return is_in(VALUES, COUNT(VALUES), strncmp, s, n) || is_no_number(s, n);
    case TD_HARMLESS_ID: return is_id(s, n);
    case TD_HARMLESS_TOKEN: return td_harmless_token_id(s, n) || is_no_number(s, n);
    case TD_HARMLESS_TIME: return is_time(s, n) || is_no_number(s, n);
    case TD_HARMLESS_NUMBER:
    case TD_HARMLESS_MAP: return is_no_number(s, n);
    default: return false;
    }
}

bool td_harmless_number(enum td_harmless kind)
{
    return kind > TD_HARMLESS_NAME;
}

bool td_harmless_header(const char *name, size_t n)
{
    return is_in(HEADERS, COUNT(HEADERS), strncasecmp, name, n);
}

static bool is_name(const char *name, size_t n, const char *want)
{
    return strlen(want) == n && !strncasecmp(name, want, n);
}

bool td_harmless_header_value(const char *name, size_t n_name, const char *value, size_t n, bool sent)
{
    size_t i = 0, end, digits;

    if (sent && (is_name(name, n_name, "Host") || is_name(name, n_name, "User-Agent")))
        return true;
    if (is_name(name, n_name, "X-Request-Id"))
        return is_id(value, n);
    for (; i < n; i = end + 1) {
        for (end = i; end < n && isalnum((unsigned char)value[end]); end++)
            ;
        for (digits = i; digits < end && isdigit((unsigned char)value[digits]); digits++)
            ;
        if ((digits < end || end - i > 10) && !is_in(HEADER_WORDS, COUNT(HEADER_WORDS), strncmp, value + i, end - i))
            return false;
        if (end < n && (unsigned char)value[end] >= 0x80)
            return false;
    }
    return true;
}

bool td_harmless_event(const char *name, size_t n)
{
    return is_in(EVENTS, COUNT(EVENTS), strncmp, name, n);
}

bool td_harmless_reason(const char *text, size_t n)
{
    return is_in(REASONS, COUNT(REASONS), strncmp, text, n);
}

bool td_harmless_metric_label(const char *name, size_t n)
{
    return is_in(METRICS, COUNT(METRICS), strncmp, name, n);
}

/* ---- sentences --------------------------------------------------------------------------------- */

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool may_stay(const char *s, size_t n)
{
    char name[64];
    size_t i;

    for (i = 0; i < n && isdigit((unsigned char)s[i]); i++)
        ;
    if (i == n)
        return n <= 3;
    if (n >= sizeof name)
        return false;
    memcpy(name, s, n);
    name[n] = '\0';
    return is_in(WORDS, COUNT(WORDS), strncmp, s, n) || td_harmless_member(name) != TD_HARMLESS_NO;
}

size_t td_harmless_sentence(char *s, size_t n)
{
    size_t i = 0, k, hidden = 0;

    while (i < n) {
        for (k = i; k < n && is_word_byte(s[k]); k++)
            ;
        if (k > i && !may_stay(s + i, k - i)) {
            memset(s + i, '*', k - i);
            hidden += k - i;
        }
        if (k < n && s[k] == '\\' && n - k >= 6 && s[k + 1] == 'u') {
            memcpy(s + k + 2, "002a", 4); /* in a JSON string: an escape of one character */
            k += 5;
        } else if (k < n && s[k] == '\\' && n - k >= 2) {
            s[++k] = '/';
        } else if (k < n && (unsigned char)s[k] >= 0x80) {
            s[k] = '*';
            hidden++;
        }
        i = k + 1;
    }
    return hidden;
}

/* ---- the order --------------------------------------------------------------------------------- */

static bool is_sorted(const char *const *list, size_t n, int (*compare)(const char *, const char *))
{
    size_t i;

    for (i = 1; i < n; i++)
        if (compare(list[i - 1], list[i]) >= 0)
            return false;
    return true;
}

bool td_harmless_sorted(void)
{
    size_t i;

    for (i = 1; i < COUNT(MEMBERS); i++)
        if (strcmp(MEMBERS[i - 1].name, MEMBERS[i].name) >= 0)
            return false;
    return is_sorted(VALUES, COUNT(VALUES), strcmp) && is_sorted(HEADERS, COUNT(HEADERS), strcasecmp) &&
           is_sorted(HEADER_WORDS, COUNT(HEADER_WORDS), strcmp) &&
           is_sorted(EVENTS, COUNT(EVENTS), strcmp) && is_sorted(REASONS, COUNT(REASONS), strcmp) &&
           is_sorted(METRICS, COUNT(METRICS), strcmp) && is_sorted(WORDS, COUNT(WORDS), strcmp);
}
