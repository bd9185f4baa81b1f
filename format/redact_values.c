/* redact_values.c - find the values of secret headers wherever they come back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "format/redact_stars.h"
#include "format/secret_names.h"

#define LEAST 8
#define LEAST_OF_A_KEY 20
#define LEAST_CUT 4

static bool looks_like_key(const char *s, size_t n)
{
    bool digit = false, letter = false;
    size_t i;

    for (i = 0; i < n; i++) {
        digit |= isdigit((unsigned char)s[i]) != 0;
        letter |= isalpha((unsigned char)s[i]) != 0;
        if (s[i] == ' ' || s[i] == '\t')
            return false;
    }
    return n >= LEAST_OF_A_KEY && digit && letter;
}

static int add(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    if (v->n == TD_REDACT_MAX_VALUES)
        return td_fail(err, TD_ELIMIT, "redaction: more than %d headers", TD_REDACT_MAX_VALUES / 8);
    v->value[v->n] = strndup(s, n);
    if (!v->value[v->n])
        return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    v->len[v->n++] = n;
    return TD_OK;
}

/* How a server writes a value that it repeats. */
enum spelling { JSON_STRING, JSON_SLASHES, IN_URL };

static size_t spell(char *out, unsigned char c, enum spelling how)
{
    static const char HEX[] = "0123456789ABCDEF";
    size_t n = 0;

    if (how == IN_URL && !isalnum(c) && !strchr("-._~", c)) {
        out[n++] = '%';
        out[n++] = HEX[c >> 4];
        out[n++] = HEX[c & 15];
        return n;
    }
    if (how != IN_URL && (c == '"' || c == '\\' || (c == '/' && how == JSON_SLASHES)))
        out[n++] = '\\';
    out[n++] = (char)c;
    return n;
}

/* Note a value as it is, and as JSON and URLs spell it where that is something else. */
static int add_spellings(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    char *other = malloc(3 * n + 1);
    int rc = other ? add(v, s, n, err) : td_fail(err, TD_ENOMEM, "redaction: out of memory");
    enum spelling how;
    size_t i, len;

    for (how = JSON_STRING; !rc && how <= IN_URL; how++) {
        for (i = len = 0; i < n; i++)
            len += spell(other + len, (unsigned char)s[i], how);
        if (len != n && (how != JSON_SLASHES || memchr(s, '/', n)))
            rc = add(v, other, len, err);
    }
    free(other);
    return rc;
}

int td_redact_values_init(struct td_redact_values *v, const char *const *headers, struct td_error *err)
{
    int rc = TD_OK;

    memset(v, 0, sizeof *v);
    for (; !rc && headers && *headers; headers++) {
        const char *colon = strchr(*headers, ':'), *s = colon ? colon + 1 : "", *blank;
        bool named = colon && td_secret_header(*headers, (size_t)(colon - *headers));
        size_t n;

        s += strspn(s, " \t");
        for (n = strlen(s); n && (s[n - 1] == ' ' || s[n - 1] == '\t'); n--)
            ;
        if (n < LEAST || (!named && !looks_like_key(s, n)))
            continue;
        rc = add_spellings(v, s, n, err);
        blank = memchr(s, ' ', n);
        if (!rc && blank && n - (size_t)(blank + 1 - s) >= LEAST)
            rc = add_spellings(v, blank + 1, n - (size_t)(blank + 1 - s), err);
    }
    return rc;
}

void td_redact_values_release(struct td_redact_values *v)
{
    while (v->n)
        free(v->value[--v->n]);
}

/* Does s end with the beginning of a value? Its bytes; 0: no. */
static size_t begun(const char *s, size_t n, const char *value, size_t len)
{
    size_t k;

    for (k = n < len ? n : len - 1; k; k--)
        if (s[n - k] == *value && !memcmp(s + n - k, value, k))
            return k;
    return 0;
}

int64_t td_redact_values_apply(const struct td_redact_values *v, char *s, size_t n, bool cut)
{
    int64_t changed = 0;
    char *at, *from;
    size_t k;
    int i;

    for (i = 0; i < v->n; i++) {
        for (from = s; (at = memmem(from, (size_t)(s + n - from), v->value[i], v->len[i])); from = at + v->len[i])
            changed += td_redact_stars(at, v->len[i]);
        k = cut ? begun(s, n, v->value[i], v->len[i]) : 0;
        if (k >= LEAST_CUT)
            changed += td_redact_stars(s + n - k, k);
    }
    return changed;
}

size_t td_redact_values_pending(const struct td_redact_values *v, const char *s, size_t n)
{
    size_t most = 0, k;
    int i;

    for (i = 0; i < v->n; i++) {
        k = begun(s, n, v->value[i], v->len[i]);
        most = k > most ? k : most;
    }
    return most;
}
