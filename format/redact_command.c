/* redact_command.c - overwrite secrets in command lines.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "format/redact_stars.h"
#include "format/redact_words.h"
#include "format/secret_names.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Overwrite what follows the first such byte; without one nothing, in JSON all values and names. */
static int64_t hide_behind(char *s, size_t n, char mark)
{
    char *at = memchr(s, mark, n);
    int64_t changed = 0;
    size_t i;

    if (n && (*s == '{' || *s == '[')) {
        for (i = 0; i < n; i++)
            if (isalnum((unsigned char)s[i]) || !s[i] || !strchr("[]{}:,\"'\\ ", s[i]))
                changed += td_redact_stars(s + i, 1);
        return changed;
    }
    return at ? td_redact_stars(at + 1, (size_t)(s + n - at) - 1) : 0;
}

static int64_t hide_expected(enum td_expect expect, char *s, size_t n)
{
    switch (expect) {
    case TD_EXPECT_SECRET:
    case TD_EXPECT_SECRETS: return td_redact_stars(s, n);
    case TD_EXPECT_VARIABLE: return hide_behind(s, n, '=');
    case TD_EXPECT_HEADER:
    case TD_EXPECT_USER: return hide_behind(s, n, ':');
    default: return 0;
    }
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);

    return n >= k && !strncasecmp(s + n - k, end, k) && (n == k || !isalnum((unsigned char)s[n - k - 1]));
}

/* What an option of this name takes. */
static enum td_expect expect_of(const char *s, size_t n)
{
    if (n == 2 && s[1] != '-')
        switch (s[1]) {
        case 'k':
        case 'p': return TD_EXPECT_SECRET;
        case 'e': return TD_EXPECT_VARIABLE;
        case 'H': return TD_EXPECT_HEADER;
        case 'u': return TD_EXPECT_USER;
        default: return TD_EXPECT_NOTHING;
        }
    if (ends_with(s, n, "env") || ends_with(s, n, "envs") || ends_with(s, n, "environment"))
        return TD_EXPECT_VARIABLE;
    if (ends_with(s, n, "header") || ends_with(s, n, "headers"))
        return TD_EXPECT_HEADER;
    if (ends_with(s, n, "user"))
        return TD_EXPECT_USER;
    return td_secret_name(s, n) ? TD_EXPECT_SECRETS : TD_EXPECT_NOTHING;
}

/* "--env=A=b", "-pSECRET", "-HName:value", or an option whose value is the next word. */
static int64_t hide_option(enum td_expect *expect, char *s, size_t n)
{
    char *eq = memchr(s, '=', n);
    size_t name = eq ? (size_t)(eq - s) : n;
    enum td_expect takes;

    if (n > 2 && s[1] != '-' && strchr("kpeHu", s[1]) && (!eq || name > 1)) {
        takes = expect_of(s, 2);
        return hide_expected(takes, s + 2, n - 2);
    }
    takes = expect_of(s, name);
    if (eq)
        return hide_expected(takes, eq + 1, n - name - 1);
    *expect = takes;
    return 0;
}

static int64_t hide_one(enum td_expect *expect, char *s, size_t n)
{
    bool option = n > 1 && *s == '-';
    int64_t changed;

    if (option) {
        *expect = TD_EXPECT_NOTHING;
        return hide_option(expect, s, n);
    }
    changed = hide_expected(*expect, s, n);
    if (*expect != TD_EXPECT_SECRETS)
        *expect = TD_EXPECT_NOTHING;
    return changed;
}

/* The words of a line of a shell, quotes included. */
static int64_t hide_line(char *s, size_t n)
{
    enum td_expect expect = TD_EXPECT_NOTHING;
    int64_t changed = 0;
    size_t i = 0, end, from;
    char quote;

    while (i < n) {
        for (; i < n && is_blank(s[i]); i++)
            ;
        for (end = i, quote = 0; end < n && (quote || !is_blank(s[end])); end++)
            if (!quote && (s[end] == '"' || s[end] == '\''))
                quote = s[end];
            else if (quote == s[end])
                quote = 0;
        from = i < end && (s[i] == '"' || s[i] == '\'') ? i + 1 : i;
        if (from < end)
            changed += hide_one(&expect, s + from, end - from - (from > i && end > from + 1 && s[end - 1] == s[i]));
        i = end;
    }
    return changed;
}

int64_t td_redact_command_word(enum td_expect *expect, char *word, size_t n)
{
    bool line = *expect == TD_EXPECT_NOTHING && n && *word != '-' && *word != '{' && *word != '[';
    int64_t changed = line ? hide_line(word, n) : hide_one(expect, word, n);

    return changed + td_redact_text(word, n);
}
