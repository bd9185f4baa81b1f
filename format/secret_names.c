/* secret_names.c - by which names secrets go.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/secret_names.h"

#include <ctype.h>
#include <string.h>

#define NAME_MAX_BYTES 128
#define MAX_WORDS 24

/* Secret wherever they stand in a name. */
static const char *const ANYWHERE[] = {
    "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode", "apikey", "apikeys", "credential",
    "credentials", "authorization", "authorisation", "authentication", "cookie", "cookies", "jwt", "bearer", NULL};
/* Secret at the end of a name; in a header anywhere. */
static const char *const LAST[] = {"key", "token", "auth", "pwd", "pat", "signature", "sig", "pass", "userpwd", "session", NULL};
/* Secret when they follow each other, with anything behind: "access_key_id". */
static const char *const PAIRS[][2] = {
    {"api", "key"},     {"api", "keys"},    {"api", "token"},   {"api", "tokens"},    {"access", "key"},   {"access", "keys"},
    {"access", "token"}, {"access", "tokens"}, {"auth", "token"}, {"auth", "tokens"}, {"auth", "key"},      {"auth", "user"},
    {"refresh", "token"}, {"session", "token"}, {"session", "id"}, {"session", "key"}, {"private", "key"},
    {"security", "token"}, {"client", "key"}, {"hf", "token"},    {"proxy", "user"},   {"id", "token"}};

struct words {
    char text[NAME_MAX_BYTES + MAX_WORDS + 1];
    const char *word[MAX_WORDS];
    size_t n;
};

/* "--aws-accessKeyId" -> aws access key id; the last words of a long name */
static void split_words(const char *s, size_t n, struct words *w)
{
    size_t i, used = 0;
    bool inside = false;

    w->n = 0;
    if (n > NAME_MAX_BYTES) {
        s += n - NAME_MAX_BYTES;
        n = NAME_MAX_BYTES;
    }
    for (i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        bool begins = isupper(c) && i && (islower((unsigned char)s[i - 1]) ||
                                          (isupper((unsigned char)s[i - 1]) && i + 1 < n && islower((unsigned char)s[i + 1])));

        if (inside && (!isalnum(c) || begins)) {
            w->text[used++] = '\0';
            inside = false;
        }
        if (!isalnum(c) || (!inside && w->n == MAX_WORDS))
            continue;
        if (!inside)
            w->word[w->n++] = w->text + used;
        inside = true;
        w->text[used++] = (char)tolower(c);
    }
    w->text[used] = '\0';
}

static bool is_listed(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (!strcmp(*list, word))
            return true;
    return false;
}

static bool has_pair(const struct words *w)
{
    size_t i, k;

    for (i = 1; i < w->n; i++)
        for (k = 0; k < sizeof PAIRS / sizeof *PAIRS; k++)
            if (!strcmp(w->word[i - 1], PAIRS[k][0]) && !strcmp(w->word[i], PAIRS[k][1]))
                return true;
    return false;
}

static bool is_secret(const char *s, size_t n, bool last_anywhere)
{
    struct words w;
    size_t i;

    split_words(s, n, &w);
    for (i = 0; i < w.n; i++)
        if (is_listed(ANYWHERE, w.word[i]) || ((last_anywhere || i + 1 == w.n) && is_listed(LAST, w.word[i])))
            return true;
    return has_pair(&w);
}

bool td_secret_name(const char *s, size_t n)
{
    return is_secret(s, n, false);
}

bool td_secret_header(const char *s, size_t n)
{
    return is_secret(s, n, true);
}
