/* redact_words.c - overwrite keys and passwords in URLs and texts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "format/redact_stars.h"
#include "format/secret_names.h"

/* ---- URLs -------------------------------------------------------------------------------------- */

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
            changed += td_redact_stars(text + i + 3, at - i - 3);
        i = k - 1;
    }
    return changed;
}

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Is this the name of a secret, plain or with escapes ("api%5Fkey")? A secret's name is shorter than the copy. */
static bool is_secret_parameter(const char *name, size_t n)
{
    char plain[128];
    size_t i, k = 0;

    if (td_secret_name(name, n))
        return true;
    for (i = 0; i < n && k < sizeof plain; i++) {
        const bool escaped = name[i] == '%' && i + 2 < n && hex(name[i + 1]) >= 0 && hex(name[i + 2]) >= 0;

        plain[k++] = escaped ? (char)(hex(name[i + 1]) * 16 + hex(name[i + 2])) : name[i];
        i += escaped ? 2 : 0;
    }
    return i == n && td_secret_name(plain, k);
}

/* Does a parameter begin behind this character? ";" parts them within a query alone: texts have it, too. */
static bool begins_parameter(char c, bool *in_query)
{
    *in_query = c == '?' || (*in_query && c && !strchr("# \"'\\<>\r\n\t", c));
    return c == '?' || c == '&' || (c == ';' && *in_query);
}

int64_t td_redact_query(char *text, size_t n)
{
    int64_t changed = hide_userinfo(text, n);
    bool in_query = false;
    size_t i, name, end;

    for (i = 0; i < n; i++) {
        if (!begins_parameter(text[i], &in_query))
            continue;
        for (name = i + 1; name < n && (isalnum((unsigned char)text[name]) || (text[name] && strchr("_-.%[]", text[name]))); name++)
            ;
        if (name >= n || text[name] != '=' || !is_secret_parameter(text + i + 1, name - i - 1))
            continue;
        for (end = name + 1; end < n && text[end] && !strchr("&# \"'\\<>\r\n\t", text[end]); end++)
            ;
        changed += td_redact_stars(text + name + 1, end - name - 1);
        i = end - 1;
    }
    return changed;
}

/* ---- values of names --------------------------------------------------------------------------- */

static bool is_one_of(const char *const *list, const char *s, size_t n)
{
    for (; *list; list++)
        if (strlen(*list) == n && !strncasecmp(*list, s, n))
            return true;
    return false;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

/* Where the quoted text ends that begins at i, before its closing quote. */
static size_t quoted_end(const char *s, size_t i, size_t n, char quote, bool escaped)
{
    for (; i < n && s[i] != '\n'; i++) {
        if (escaped && s[i] == '\\' && i + 1 < n && s[i + 1] == quote)
            return i;
        if (!escaped && s[i] == '\\')
            i++;
        else if (!escaped && s[i] == quote)
            return i;
    }
    return i < n ? i : n;
}

/* Overwrite what a pair of brackets holds, and keep its form. Returns the place behind it. */
static size_t hide_brackets(char *s, size_t i, size_t n, int64_t *changed)
{
    int depth = 0;

    for (; i < n; i++) {
        if (s[i] && strchr("[{(", s[i]))
            depth++;
        else if (s[i] && strchr("]})", s[i]))
            depth--;
        else if (!s[i] || !strchr(",:\"'\\ \t\r\n", s[i]))
            *changed += td_redact_stars(s + i, 1);
        if (!depth)
            return i + 1;
    }
    return n;
}

static size_t bare_end(const char *s, size_t i, size_t n)
{
    while (i < n && s[i] && !strchr(" \t\r\n&,;)]}>\"'`<#|\\", s[i]))
        i++;
    return i;
}

bool td_is_string_prefix(const char *s, size_t i, size_t quote)
{
    return quote == i + 1 && s[i] && strchr("bBuUrR", s[i]) && is_quote(s[quote]) && (!i || !isalnum((unsigned char)s[i - 1]));
}

/* Overwrite the value at i. Returns the place behind it. */
static size_t hide_value(char *s, size_t i, size_t n, int64_t *changed)
{
    static const char *const schemes[] = {"bearer", "basic", "digest", "token", "apikey", "negotiate", NULL},
                            *const nothing[] = {"none", "null", "true", "false", NULL};
    bool escaped = i + 1 < n && s[i] == '\\' && is_quote(s[i + 1]);
    size_t end;

    if (i < n && s[i] && strchr("[{(", s[i]))
        return hide_brackets(s, i, n, changed);
    i += escaped;
    i += i + 1 < n && td_is_string_prefix(s, i, i + 1);
    if (i < n && is_quote(s[i])) {
        end = quoted_end(s, i + 1, n, s[i], escaped);
        *changed += td_redact_stars(s + i + 1, end - i - 1);
        return end < n ? end + 1 : n;
    }
    end = bare_end(s, i, n);
    if (is_one_of(schemes, s + i, end - i) && end < n && s[end] == ' ') {
        for (i = end; i < n && s[i] == ' '; i++)
            ;
        end = bare_end(s, i, n);
    }
    if (!is_one_of(nothing, s + i, end - i))
        *changed += td_redact_stars(s + i, end - i);
    return end;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Where the value begins that belongs to the name that ends at i; 0: there is none. */
static size_t value_of(const char *s, size_t i, size_t n)
{
    size_t blanks;

    if (i + 1 < n && s[i] == '\\' && is_quote(s[i + 1]))
        i++;
    if (i < n && (is_quote(s[i]) || s[i] == ']'))
        i++;
    for (blanks = 0; i < n && s[i] == ' ' && blanks < 4; blanks++)
        i++;
    if (i >= n || (s[i] != '=' && s[i] != ':') || (s[i] == ':' && i + 2 < n && s[i + 1] == '/' && s[i + 2] == '/'))
        return 0;
    for (i++; i < n && (s[i] == ' ' || s[i] == '\t'); i++)
        ;
    return i < n ? i : 0;
}

static int64_t hide_named(char *s, size_t n)
{
    int64_t changed = 0;
    size_t i = 0, end, value;

    while (i < n) {
        if (!is_name_byte(s[i])) {
            i++;
            continue;
        }
        for (end = i; end < n && is_name_byte(s[end]); end++)
            ;
        value = value_of(s, end, n);
        i = value && td_secret_name(s + i, end - i) ? hide_value(s, value, n, &changed) : end;
    }
    return changed;
}

/* ---- words that are secrets by their form ------------------------------------------------------ */

static bool is_key_byte(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._~+/=-", c));
}

/* The bytes at the beginning of a well-known key of at least so many bytes. */
static const struct { const char *begin; size_t least; } FORMS[] = {
    {"sk-", 20},   {"hf_", 20},   {"ghp_", 20},  {"gho_", 20},  {"ghu_", 20},  {"ghs_", 20},
    {"ghr_", 20},  {"github_pat_", 22}, {"glpat-", 20}, {"xoxb-", 20}, {"xoxp-", 20}, {"xoxa-", 20},
    {"AKIA", 20},  {"ASIA", 20},  {"AIza", 30},  {"eyJ", 40},   {"nvapi-", 20}, {"gsk_", 20},
};

static bool has_key_form(const char *s, size_t n)
{
    size_t i;

    for (i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (n >= FORMS[i].least && !memcmp(s, FORMS[i].begin, strlen(FORMS[i].begin)))
            return true;
    return false;
}

static int64_t hide_by_form(char *s, size_t n)
{
    static const char *const schemes[] = {"bearer", "basic", NULL};
    bool after_scheme = false;
    int64_t changed = 0;
    size_t i = 0, end;

    while (i < n) {
        if (!is_key_byte(s[i])) {
            after_scheme = after_scheme && s[i] == ' ';
            i++;
            continue;
        }
        for (end = i; end < n && is_key_byte(s[end]); end++)
            ;
        if ((after_scheme && end - i >= 8) || has_key_form(s + i, end - i))
            changed += td_redact_stars(s + i, end - i);
        after_scheme = is_one_of(schemes, s + i, end - i);
        i = end;
    }
    return changed;
}

int64_t td_redact_text(char *text, size_t n)
{
    int64_t changed = td_redact_query(text, n);

    changed += td_redact_pairs(text, n); /* before the names are overwritten, as that of "key" */
    changed += hide_named(text, n);
    return changed + hide_by_form(text, n);
}
