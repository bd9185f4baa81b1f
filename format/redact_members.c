/* redact_members.c - hide values of secret headers in JSON of our own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_members.h"

#include <ctype.h>
#include <string.h>

#include "format/redact_stars.h"

struct walk {
    const struct td_redact_values *values;
    char *at, *end;
    int depth, own;
    const char *name; size_t n_name; /* of the member of ours that is read */
    int64_t changed;
    bool bad;
};

/* Behind the string that begins at p; NULL: it does not end. */
static char *end_of_string(char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\' && p + 1 < end;
    return p < end ? p + 1 : NULL;
}

static bool is_name(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p < end && *p == ':';
}

static bool named(const struct walk *w, const char *name)
{
    return w->n_name == strlen(name) && !memcmp(w->name, name, w->n_name);
}

static bool is_ours(const struct walk *w)
{
    static const char *const NAMES[] = {"prompt_id", "category", "phase", "api", "method"};
    size_t i;

    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (w->depth == w->own && named(w, NAMES[i]))
            return true;
    return false;
}

/* Do the escapes of a string still hold? A value may have begun or ended within one. */
static bool escapes_hold(const char *p, size_t n)
{
    size_t i, k;

    for (i = 0; i < n; i++) {
        if (p[i] != '\\')
            continue;
        if (++i == n || !strchr("\"\\/bfnrtu", p[i]))
            return false;
        for (k = 1; p[i] == 'u' && k <= 4; k++)
            if (i + k >= n || !isxdigit((unsigned char)p[i + k]))
                return false;
    }
    return true;
}

/* The bytes of a string, without its quotes. Of a path of ours only its query may hold any. */
static void hide(struct walk *w, char *p, size_t n)
{
    char *query;
    int64_t changed;

    if (w->depth == w->own && named(w, "path")) {
        query = memchr(p, '?', n);
        n = query ? (size_t)(p + n - query) : 0;
        p = query ? query : p;
    }
    changed = td_redact_values_apply(w->values, p, n, false);
    if (changed && !escapes_hold(p, n))
        changed += td_redact_stars(p, n);
    w->changed += changed;
}

static void read_string(struct walk *w)
{
    char *begin = w->at + 1, *end = end_of_string(w->at, w->end);
    size_t n;

    if (!end) {
        w->bad = true;
        return;
    }
    n = (size_t)(end - begin) - 1;
    w->at = end;
    if (!is_name(end, w->end)) {
        if (!is_ours(w))
            hide(w, begin, n);
    } else if (w->depth <= w->own) {
        w->name = begin;
        w->n_name = n;
    } else {
        hide(w, begin, n);
    }
}

/* A number of the request, which may be a key: it stays a number. */
static void read_number(struct walk *w)
{
    char copy[64], *p = w->at;
    size_t n, i;

    for (n = 0; p + n < w->end && (isalnum((unsigned char)p[n]) || strchr("+-.", p[n])); n++)
        ;
    w->at += n ? n : 1;
    if (n >= sizeof copy || !named(w, "request") || w->depth <= w->own)
        return;
    memcpy(copy, p, n);
    if (!td_redact_values_apply(w->values, copy, n, false))
        return;
    for (i = 0; i < n; i++)
        if (isdigit((unsigned char)p[i])) {
            p[i] = '1';
            w->changed++;
        }
}

int64_t td_redact_members(const struct td_redact_values *v, char *line, size_t n, int own)
{
    struct walk w = {.values = v, .at = line, .end = line + n, .own = own};

    if (!td_redact_values_any(v))
        return 0;
    while (w.at < w.end && !w.bad) {
        if (*w.at == '"') {
            read_string(&w);
        } else if (*w.at == '-' || isdigit((unsigned char)*w.at)) {
            read_number(&w);
        } else {
            w.depth += (*w.at == '{' || *w.at == '[') - (*w.at == '}' || *w.at == ']');
            w.at++;
        }
    }
    if (w.bad || w.depth)
        w.changed += td_redact_values_apply(v, line, n, false);
    return w.changed;
}
