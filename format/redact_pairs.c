/* redact_pairs.c - overwrite what stands beside a secret's name in a text.
 * SPDX-License-Identifier: Apache-2.0
 *
 * {"key": "api_key", "value": "x"}, ('Authorization', 'Bearer x'), Header(name='X-Api-Key', value='x'), and
 * the same inside a string of JSON, with backslashes before its quotes. The text is walked once; for each
 * open bracket the parts between its commas are noted, and judged when it closes. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "format/redact_stars.h"
#include "format/redact_words.h"
#include "format/secret_names.h"

#define MOST_LEVELS 16 /* of brackets in one another; deeper ones are walked, and not judged */
#define MOST_PARTS 16  /* of a bracket; the first ones are judged */
#define MOST_BACKSLASHES 64
#define MOST_TEXTS 4   /* in one another, whose brackets are judged */

struct span { size_t at, end; };
struct part { struct span key, value; bool quoted; };
struct bracket { struct part part[MOST_PARTS]; size_t n, from; };

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* How many backslashes stand before byte i, down to `from`. */
static size_t backslashes(const char *s, size_t from, size_t i)
{
    size_t k = 0;

    while (i - k > from && s[i - k - 1] == '\\')
        k++;
    return k;
}

/* The quote at i opens a string behind k backslashes: the quote that closes it; 0: none does, or it is an
 * apostrophe. */
static size_t closing(const char *s, size_t i, size_t n, size_t k)
{
    size_t at, before;

    if (k > MOST_BACKSLASHES || (i && !k && isalnum((unsigned char)s[i - 1]) && !td_is_string_prefix(s, i - 1, i)))
        return 0;
    for (at = i + 1; at < n && s[at] != '\n'; at++) {
        if (s[at] != s[i])
            continue;
        before = backslashes(s, i + 1, at);
        if (k ? before <= k : before % 2 == 0)
            return at;
    }
    return 0;
}

/* Without blanks around it. */
static struct span trim(const char *s, struct span p)
{
    while (p.at < p.end && strchr(" \t\r\n", s[p.at]))
        p.at++;
    while (p.end > p.at && strchr(" \t\r\n", s[p.end - 1]))
        p.end--;
    return p;
}

/* Take the quotes off. False: there are none around all of it. */
static bool unquote(const char *s, struct span *p)
{
    struct span in = *p;
    size_t k;

    in.at += in.end - in.at > 1 && td_is_string_prefix(s, in.at, in.at + 1);
    for (k = 0; in.at < in.end && s[in.at] == '\\'; k++)
        in.at++;
    if (in.end - in.at < 2 || !is_quote(s[in.at]) || s[in.end - 1] != s[in.at] || closing(s, in.at, in.end, k) != in.end - 1)
        return false;
    in.at++;
    for (in.end--; k && in.end > in.at && s[in.end - 1] == '\\'; in.end--)
        ;
    *p = in;
    return true;
}

/* The part of a bracket that ends at `end`: KEY: VALUE, KEY=VALUE, or VALUE alone. colon : 0: none */
static void add_part(struct bracket *b, const char *s, size_t end, size_t colon)
{
    struct part *p;

    if (b->n < MOST_PARTS) {
        p = &b->part[b->n];
        p->key = trim(s, (struct span){b->from, colon ? colon : b->from});
        p->value = trim(s, (struct span){colon ? colon + 1 : b->from, end});
        unquote(s, &p->key);
        p->quoted = unquote(s, &p->value);
    }
    b->n++;
    b->from = end + 1;
}

static bool names_others(const struct bracket *b, const char *s, const struct part *p)
{
    bool named = td_is_naming(s + p->key.at, p->key.end - p->key.at);

    return (named || (p->quoted && b->n == 2)) && td_names_secret(s + p->value.at, p->value.end - p->value.at, named);
}

/* A bracket is closed: overwrite what is named. */
static int64_t judge(const struct bracket *b, char *s)
{
    size_t most = b->n < MOST_PARTS ? b->n : MOST_PARTS, i, last = 0, naming = 0, k;
    int64_t changed = 0;

    for (i = 0; i < most && b->n > 1; i++)
        if (names_others(b, s, &b->part[i])) {
            naming++;
            last = i;
        }
    for (i = 0; i < most && naming; i++) {
        const struct part *p = &b->part[i];

        if ((naming == 1 && i == last) || (b->n > 2 && td_is_naming(s + p->key.at, p->key.end - p->key.at)))
            continue;
        for (k = p->value.at; k < p->value.end; k++)
            if (p->quoted || !s[k] || !strchr("[]{}(),:\"'\\ \t", s[k])) /* the form stays */
                changed += td_redact_stars(s + k, 1);
    }
    return changed;
}

/* texts : how many texts this one stands in */
static int64_t hide_pairs(char *s, size_t n, int texts)
{
    struct bracket level[MOST_LEVELS];
    size_t depth = 0, colon[MOST_LEVELS] = {0}, i, end;
    int64_t changed = 0;

    for (i = 0; i < n; i++) {
        struct bracket *b = depth && depth <= MOST_LEVELS ? &level[depth - 1] : NULL;

        if (is_quote(s[i]) && b && (end = closing(s, i, n, backslashes(s, b->from, i)))) {
            if (texts < MOST_TEXTS)
                changed += hide_pairs(s + i + 1, end - i - 1, texts + 1);
            i = end;
        } else if (s[i] && strchr("[{(", s[i])) {
            if (depth++ < MOST_LEVELS) {
                level[depth - 1].n = 0;
                level[depth - 1].from = i + 1;
                colon[depth - 1] = 0;
            }
        } else if (b && (s[i] == ':' || s[i] == '=') && !colon[depth - 1]) {
            colon[depth - 1] = i;
        } else if (b && s[i] == ',') {
            add_part(b, s, i, colon[depth - 1]);
            colon[depth - 1] = 0;
        } else if (depth && s[i] && strchr("]})", s[i])) {
            if (b) {
                add_part(b, s, i, colon[depth - 1]);
                changed += judge(b, s);
            }
            depth--;
        }
    }
    return changed;
}

int64_t td_redact_pairs(char *text, size_t n)
{
    return hide_pairs(text, n, 0);
}
