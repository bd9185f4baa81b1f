/* credentials.c - the secrets within a header's value.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/credentials.h"

#include <string.h>
#include <strings.h>

static bool is_one_of(char c, const char *list)
{
    return c && strchr(list, c);
}

/* The bytes from s + at on that are in the list, or that are not. */
static size_t span(const char *s, size_t n, size_t at, const char *list, bool in)
{
    size_t i = at;

    while (i < n && is_one_of(s[i], list) == in)
        i++;
    return i - at;
}

size_t td_credentials_key(const char *s, size_t n)
{
    const size_t scheme = span(s, n, 0, " \t", false);

    return scheme + span(s, n, scheme, " \t", true);
}

bool td_credentials_basic(const char *s, size_t n)
{
    return span(s, n, 0, " \t", false) == 5 && !strncasecmp(s, "Basic", 5);
}

/* Words of HTTP's schemes (RFC 9110, 7616), of signatures and of OAuth, whose values are no secrets, and
 * may be words of any message. */
static bool is_no_secret(const char *name, size_t n)
{
    static const char *const NAMES[] = {"realm", "uri", "domain", "algorithm", "qop", "charset", "username", "userhash",
                                        "headers", "SignedHeaders", "scope", "oauth_signature_method"};
    size_t i;

    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strlen(NAMES[i]) == n && !strncasecmp(NAMES[i], name, n))
            return true;
    return false;
}

/* Read a value, up to the quote, blank, comma or semicolon that ends it. A quote that is not closed is
 * none of its bytes either. */
static size_t read_value(const char *s, size_t n, size_t at, struct td_credential *out)
{
    const char quote = at < n && is_one_of(s[at], "\"'") ? s[at] : '\0';
    size_t i = at + 1;

    if (!quote) {
        *out = (struct td_credential){s + at, span(s, n, at, " \t;,", false)};
        return at + out->n;
    }
    while (i < n && s[i] != quote)
        i += s[i] == '\\' && i + 1 < n ? 2 : 1;
    *out = (struct td_credential){s + at + 1, i - at - 1};
    return i < n ? i + 1 : n;
}

bool td_credentials_next(const char *s, size_t n, size_t *at, struct td_credential *out)
{
    for (;;) {
        size_t word, name, equals;

        word = *at += span(s, n, *at, " \t;,", true);
        if (word >= n)
            return false;
        name = span(s, n, word, " \t;,=\"'", false);
        equals = word + name + span(s, n, word + name, " \t", true);
        if (name && equals < n && s[equals] == '=') {
            equals += 1 + span(s, n, equals + 1, " \t", true);
            *at = read_value(s, n, equals, out);
            if (!is_no_secret(s + word, name))
                return true;
        } else if (is_one_of(s[word], "\"'")) {
            *at = read_value(s, n, word, out);
            return true;
        } else {
            *at += span(s, n, word, " \t;,", false); /* a word: the scheme, or a value of its own */
        }
    }
}
