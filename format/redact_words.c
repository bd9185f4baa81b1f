/* redact_words.c - overwrite keys in URLs and command lines.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define NAME_MAX_BYTES 64

static const char *const SECRET_NAMES[] = {
    "key",           "token",    "api_key",   "apikey",   "access_token",
    "auth_token",    "hf_token", "secret",    "password", "passwd",
    "client_secret", "sig",      "signature", "auth",     "authorization",
    "bearer",        NULL};

/* "--Api-Key" and "OPENAI_API_KEY" are named too. */
static bool is_secret_name(const char *s, size_t n)
{
    char name[NAME_MAX_BYTES];
    size_t i, len;

    while (n && *s == '-') {
        s++;
        n--;
    }
    if (!n || n >= sizeof name)
        return false;
    for (i = 0; i < n; i++)
        name[i] = s[i] == '-' ? '_' : (char)tolower((unsigned char)s[i]);
    name[n] = '\0';
    for (i = 0; SECRET_NAMES[i]; i++) {
        len = strlen(SECRET_NAMES[i]);
        if (!strcmp(name, SECRET_NAMES[i]) || (n > len && name[n - len - 1] == '_' && !strcmp(name + n - len, SECRET_NAMES[i])))
            return true;
    }
    return false;
}

static int64_t overwrite_with_stars(char *s, size_t n)
{
    memset(s, '*', n);
    return (int64_t)n;
}

/* "http://user:password@host" */
static int64_t hide_userinfo(char *text, size_t n)
{
    static const char mark[] = "://";
    int64_t changed = 0;
    size_t i, k, at;

    for (i = 0; i + 3 < n; i++) {
        if (memcmp(text + i, mark, 3))
            continue;
        for (at = 0, k = i + 3; k < n && text[k] && !strchr("/?# \"'\\\r\n", text[k]); k++)
            if (text[k] == '@')
                at = k;
        if (at)
            changed += overwrite_with_stars(text + i + 3, at - i - 3);
        i = k - 1;
    }
    return changed;
}

int64_t td_redact_query(char *text, size_t n)
{
    int64_t changed = hide_userinfo(text, n);
    size_t i, name, end;

    for (i = 0; i < n; i++) {
        if (text[i] != '?' && text[i] != '&')
            continue;
        for (name = i + 1; name < n && (isalnum((unsigned char)text[name]) || text[name] == '_' || text[name] == '-'); name++)
            ;
        if (name >= n || text[name] != '=' || !is_secret_name(text + i + 1, name - i - 1))
            continue;
        for (end = name + 1; end < n && text[end] && !strchr("&# \"'\\<>\r\n\t", text[end]); end++)
            ;
        changed += overwrite_with_stars(text + name + 1, end - name - 1);
        i = end - 1;
    }
    return changed;
}

int64_t td_redact_word(const char *before, char *word)
{
    const char *prev = before;
    size_t n_prev = before ? strlen(before) : 0;
    int64_t changed = 0;
    char *p = word;

    while (*p) {
        size_t n = strcspn(p, " \t\n"), eq = strcspn(p, "= \t\n");

        if (prev && n_prev > 2 && *prev == '-' && *p != '-' && is_secret_name(prev, n_prev))
            changed += overwrite_with_stars(p, n);
        else if (eq < n && is_secret_name(p, eq))
            changed += overwrite_with_stars(p + eq + 1, n - eq - 1);
        prev = p;
        n_prev = n;
        p += n;
        p += strspn(p, " \t\n");
    }
    return changed;
}
