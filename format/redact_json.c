/* redact_json.c - overwrite values inside JSON text at equal length.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text is walked twice: first to check that all of it is JSON (else it stays unchanged, and the
 * caller overwrites all of it), then to write. Strings keep their length, raw and decoded: an
 * escape stays an escape of the same decoded length. */
#include "format/redact_json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

#define KEY_MAX 64

/* ---- paths ---------------------------------------------------------------------------------------------------------- */

void td_redact_path_release(struct td_redact_path *p)
{
    int i;

    for (i = 0; i < p->n; i++)
        free(p->part[i].name);
    memset(p, 0, sizeof *p);
}

static int add_part(struct td_redact_path *p, const char *name, size_t n, const char *all, struct td_error *err)
{
    struct td_redact_part *q = &p->part[p->n];

    if (p->n >= TD_REDACT_MAX_PARTS || n >= KEY_MAX)
        return td_fail(err, TD_EINVAL, "\"%s\": more than %d parts, or a part longer than %d bytes",
                       all, TD_REDACT_MAX_PARTS, KEY_MAX - 1);
    memset(q, 0, sizeof *q);
    if (n == 2 && !memcmp(name, "**", 2)) {
        if (p->n)
            return td_fail(err, TD_EINVAL, "\"%s\": ** can only stand at the beginning", all);
        q->deep = true;
    } else if (n == 1 && *name == '*') {
        q->any = true;
    } else if (n && *name != '[') {
        q->name = strndup(name, n);
        if (!q->name)
            return td_fail(err, TD_ENOMEM, "out of memory");
    } else if (!n) {
        return td_fail(err, TD_EINVAL, "\"%s\": an empty part; write it like \"messages[*].content\"", all);
    }
    p->n++;
    return TD_OK;
}

int td_redact_path_parse(struct td_redact_path *p, const char *text, struct td_error *err)
{
    const char *s = text;
    int rc = TD_OK;

    memset(p, 0, sizeof *p);
    while (!rc) {
        size_t n = strcspn(s, ".[");

        rc = add_part(p, s, n, text, err);
        s += n;
        while (!rc && *s == '[') {
            const char *end = strchr(s, ']');

            rc = end ? add_part(p, "[", 1, text, err) : td_fail(err, TD_EINVAL, "\"%s\": [ without ]", text);
            s = end ? end + 1 : s;
        }
        if (rc || !*s)
            break;
        if (*s++ != '.')
            rc = td_fail(err, TD_EINVAL, "\"%s\": a dot is due after ]", text);
    }
    if (!rc && p->n == 1 && p->part[0].deep)
        rc = td_fail(err, TD_EINVAL, "\"%s\": ** needs a name behind it", text);
    if (rc)
        td_redact_path_release(p);
    return rc;
}

/* ---- walking -------------------------------------------------------------------------------------------------------- */

struct step { bool index; char key[KEY_MAX]; };   /* key: decoded, cut at KEY_MAX - 1 */

struct walk {
    char *s;
    size_t n, at;
    bool write;
    const struct td_redact_rules *rules;
    int64_t changed;
    int depth, base;              /* base: where paths begin */
    struct step step[TD_JSON_MAX_DEPTH + 1];
};

/* Members of these names are text at any depth: a string, or an array of strings. */
static const char *const TEXT_NAMES[] = {
    "prompt",
    "content",
    "text",
    "token",
    "tokens",
    "bytes",
    "decoded_token",
    "tok_str",
    "reasoning_content",
    "reasoning",
    "thinking",
    "refusal",
    "arguments",
    "suffix",
    "prefix",
    "system_prompt",
    "system",
    "instructions",
    "input",
    "inputs",
    "output",
    "output_text",
    "generated_text",
    "stopping_word",
    "input_prefix",
    "input_suffix",
    "delta",
    "partial_json",
    "query",
    "documents",
    "output_token_logprobs",
    "input_token_logprobs",
    "output_top_logprobs",
    "input_top_logprobs",
    "url",
    "data",
    "prompts",
    "completion",
    "response",
    "token_text",
    "text_base64",
    "base64",
    NULL,
};
static const char *const ERROR_NAMES[] = {"error", "message", "detail", "msg", NULL};
static const char *const TOP_NAMES[] = {"token", "logprob", "bytes", "id", "top_logprobs", "prob", "rank", "decoded_token", NULL};

static bool is_listed(const char *const *names, const char *s)
{
    for (; *names; names++)
        if (!strcmp(*names, s))
            return true;
    return false;
}

static bool part_matches(const struct td_redact_part *p, const struct step *s)
{
    if (p->any)
        return true;
    return p->name ? !s->index && !strcmp(p->name, s->key) : s->index;
}

static bool path_matches(const struct td_redact_path *p, const struct walk *w)
{
    int n = w->depth - w->base, from = 0, first = 0, i;

    if (p->n && p->part[0].deep) {
        first = 1;
        from = n - (p->n - 1);
    }
    if (from < 0 || n - from != p->n - first)
        return false;
    for (i = first; i < p->n; i++)
        if (!part_matches(&p->part[i], &w->step[w->base + from + i - first]))
            return false;
    return true;
}

static bool any_path(const struct walk *w)
{
    int i;

    for (i = 0; i < w->rules->n_paths; i++)
        if (path_matches(&w->rules->path[i], w))
            return true;
    return false;
}

/* The nearest name above the value, array indices skipped. */
static const char *near_name(const struct walk *w)
{
    int i = w->depth - 1;

    while (i >= w->base && w->step[i].index)
        i--;
    return i >= w->base ? w->step[i].key : "";
}

static bool is_text(const struct walk *w)
{
    const char *name = w->rules->no_text ? near_name(w) : "";

    return *name &&
           (is_listed(TEXT_NAMES, name) || (!w->rules->no_errors && is_listed(ERROR_NAMES, name)));
}

/* ---- values --------------------------------------------------------------------------------------------------------- */

static unsigned hex4(const char *p)
{
    unsigned v = 0;
    int i;

    for (i = 0; i < 4; i++)
        v = v << 4 | (unsigned)(isdigit((unsigned char)p[i]) ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    return v;
}

/* An escape of the same decoded length in UTF-8. */
static const char *cover_escape(unsigned code)
{
    if (code < 0x80)
        return "002a";
    if (code < 0x800)
        return "00b7";
    if (code >= 0xD800 && code < 0xDC00)
        return "d83d";
    if (code >= 0xDC00 && code < 0xE000)
        return "dd12";
    return "2022";
}

static void hide_string(struct walk *w, size_t from, size_t to)
{
    size_t i = from;

    w->changed += (int64_t)(to - from);
    while (i < to) {
        if (w->s[i] == '\\' && to - i >= 6 && w->s[i + 1] == 'u') {
            memcpy(w->s + i + 2, cover_escape(hex4(w->s + i + 2)), 4);
            i += 6;
        } else if (w->s[i] == '\\' && to - i >= 2) {
            w->s[i + 1] = '/';
            i += 2;
        } else {
            w->s[i++] = '*';
        }
    }
}

/* "***" is Kioq: the text keeps its length, and stays base64. */
static void hide_base64(struct walk *w, size_t from, size_t to)
{
    size_t i;

    w->changed += (int64_t)(to - from);
    for (i = from; i < to; i++)
        if (w->s[i] != '=')
            w->s[i] = "Kioq"[(i - from) & 3];
}

static bool is_token_id(const char *s, size_t n)
{
    size_t i;

    if (n < 10 || memcmp(s, "token_id:", 9))
        return false;
    for (i = 9; i < n; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return true;
}

/* At an opening quote: its end, past the closing one; 0: no string. */
static size_t string_end(const struct walk *w)
{
    size_t i = w->at + 1;

    while (i < w->n && w->s[i] != '"') {
        if (w->s[i] != '\\') {
            i++;
            continue;
        }
        if (i + 1 >= w->n)
            return 0;
        if (w->s[i + 1] == 'u') {
            size_t k;

            for (k = 2; k < 6; k++)
                if (i + k >= w->n || !isxdigit((unsigned char)w->s[i + k]))
                    return 0;
            i += 6;
        } else if (strchr("\"\\/bfnrt", w->s[i + 1]) && w->s[i + 1]) {
            i += 2;
        } else {
            return 0;
        }
    }
    return i < w->n ? i + 1 : 0;
}

static int walk_string(struct walk *w, bool all)
{
    size_t end = string_end(w), from = w->at + 1;
    const char *name = near_name(w);

    if (!end)
        return TD_ECORRUPT;
    w->at = end;
    if (w->write && (all || (is_text(w) && !is_token_id(w->s + from, end - 1 - from)))) {
        if (!strcmp(name, "base64") || !strcmp(name, "text_base64"))
            hide_base64(w, from, end - 1);
        else
            hide_string(w, from, end - 1);
    }
    return TD_OK;
}

static int walk_number(struct walk *w, bool all)
{
    size_t from = w->at, i;

    while (w->at < w->n && w->s[w->at] && strchr("+-.eE0123456789", w->s[w->at]))
        w->at++;
    if (w->write && (all || (w->rules->no_text && !strcmp(near_name(w), "bytes"))))
        for (i = from; i < w->at; i++)
            if (isdigit((unsigned char)w->s[i])) {
                w->s[i] = '1';
                w->changed++;
            }
    return TD_OK;
}

static int walk_word(struct walk *w, bool all)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    size_t i;

    for (i = 0; i < 6; i++) {
        size_t n = strlen(words[i]);

        if (w->n - w->at < n || memcmp(w->s + w->at, words[i], n))
            continue;
        if (w->write && all && i < 2) {
            memcpy(w->s + w->at, "null ", n);
            w->changed += (int64_t)n;
        }
        w->at += n;
        return TD_OK;
    }
    return TD_ECORRUPT;
}

static void skip_blanks(struct walk *w)
{
    while (w->at < w->n && w->s[w->at] && strchr(" \t\r\n", w->s[w->at]))
        w->at++;
}

static int walk_value(struct walk *w, bool all);

/* Decode a key so that \u0063ontent is content. */
static void read_key(struct walk *w, size_t from, size_t to)
{
    struct step *st = &w->step[w->depth];
    size_t n = 0, i = from;

    st->index = false;
    while (i < to && n < KEY_MAX - 1) {
        if (w->s[i] == '\\' && w->s[i + 1] == 'u') {
            unsigned c = hex4(w->s + i + 2);

            st->key[n++] = c && c < 0x80 ? (char)c : '?';
            i += 6;
        } else if (w->s[i] == '\\') {
            st->key[n++] = w->s[i + 1];
            i += 2;
        } else {
            st->key[n++] = w->s[i++];
        }
    }
    st->key[n] = '\0';
}

/* Keys of {" Paris": -0.1, ...} below top_logprobs are tokens. */
static bool key_is_text(const struct walk *w, size_t from, size_t to)
{
    return w->rules->no_text && !strcmp(near_name(w), "top_logprobs") &&
           !is_listed(TOP_NAMES, w->step[w->depth].key) && !is_token_id(w->s + from, to - from);
}

static int walk_member(struct walk *w, bool all)
{
    size_t from = w->at + 1, end;
    int rc;

    if (w->at >= w->n || w->s[w->at] != '"' || !(end = string_end(w)))
        return TD_ECORRUPT;
    read_key(w, from, end - 1);
    if (w->write && key_is_text(w, from, end - 1))
        hide_string(w, from, end - 1);
    w->at = end;
    skip_blanks(w);
    if (w->at >= w->n || w->s[w->at] != ':')
        return TD_ECORRUPT;
    w->at++;
    w->depth++;
    rc = walk_value(w, all);
    w->depth--;
    return rc;
}

static int walk_container(struct walk *w, char close, bool all)
{
    int rc;

    if (w->depth >= TD_JSON_MAX_DEPTH)
        return TD_ECORRUPT;
    w->at++;
    skip_blanks(w);
    if (w->at < w->n && w->s[w->at] == close) {
        w->at++;
        return TD_OK;
    }
    for (;;) {
        skip_blanks(w);
        if (close == '}') {
            rc = walk_member(w, all);
        } else {
            w->step[w->depth].index = true;
            w->depth++;
            rc = walk_value(w, all);
            w->depth--;
        }
        if (rc)
            return rc;
        skip_blanks(w);
        if (w->at >= w->n)
            return TD_ECORRUPT;
        if (w->s[w->at] == close) {
            w->at++;
            return TD_OK;
        }
        if (w->s[w->at++] != ',')
            return TD_ECORRUPT;
    }
}

static int walk_value(struct walk *w, bool all)
{
    skip_blanks(w);
    if (w->at >= w->n)
        return TD_ECORRUPT;
    all = all || any_path(w);
    switch (w->s[w->at]) {
    case '{': return walk_container(w, '}', all);
    case '[': return walk_container(w, ']', all);
    case '"': return walk_string(w, all);
    case '-':
        return w->at + 1 < w->n && w->s[w->at + 1] == 'I' ? walk_word(w, all) : walk_number(w, all);
    default:
        return isdigit((unsigned char)w->s[w->at]) ? walk_number(w, all) : walk_word(w, all);
    }
}

static struct walk *walk_new(const struct td_redact_rules *rules, char *text, size_t n)
{
    struct walk *w = calloc(1, sizeof *w); /* 13 KB: too much for a thread's stack in a deep call */

    if (w) {
        w->s = text;
        w->n = n;
        w->rules = rules;
    }
    return w;
}

int64_t td_redact_json(const struct td_redact_rules *rules, char *text, size_t n)
{
    struct walk *w = walk_new(rules, text, n);
    int64_t changed = TD_ECORRUPT;
    int pass;

    for (pass = 0; w && pass < 2; pass++) {
        w->at = 0;
        w->write = pass == 1;
        if (walk_value(w, false))
            break;
        skip_blanks(w);
        if (w->at != n)
            break;
        if (w->write)
            changed = w->changed;
    }
    free(w);
    return changed;
}

int64_t td_redact_exchange_json(const struct td_redact_rules *rules, bool answers, bool error, char *text, size_t n)
{
    static const char *const ANSWER[] = {"text", "text_base64", "token_text", NULL};
    struct walk *w = walk_new(rules, text, n);
    int64_t changed = TD_ECORRUPT;
    int rc = w && n && *text == '{' ? TD_OK : TD_ECORRUPT;

    if (rc)
        goto out;
    w->write = true;
    w->at = 1;
    while (!rc && w->at < n && w->s[w->at] == '"') {
        size_t from = w->at + 1, end = string_end(w);

        if (!end || end >= n)
            break;
        read_key(w, from, end - 1);
        w->at = end + 1; /* our own line: no blanks */
        w->depth = 1;
        w->base = strcmp(w->step[0].key, "request") ? 0 : 1;
        rc = walk_value(w, (answers && is_listed(ANSWER, w->step[0].key)) ||
                               (error && !strcmp(w->step[0].key, "error")));
        w->depth = w->base = 0;
        if (w->at < n && w->s[w->at] == ',')
            w->at++;
    }
    if (!rc)
        changed = w->changed;
out:
    free(w);
    return changed;
}
