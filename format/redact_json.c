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
#include "format/harmless.h"

/* ---- walking -------------------------------------------------------------------------------------------------------- */

struct step {
    bool index;
    enum td_harmless kind;        /* of a member, without text */
    char key[TD_REDACT_KEY_MAX];            /* decoded, cut at TD_REDACT_KEY_MAX - 1 */
};

struct walk {
    char *s;
    size_t n, at;
    bool write;
    const struct td_redact_rules *rules;
    int64_t changed;
    int64_t *hits;                /* values that each path matched, or NULL */
    int depth, base;              /* base: where paths begin */
    struct step step[TD_JSON_MAX_DEPTH + 1];
};

/* What becomes of a value and all below it. */
enum fate {
    BY_RULES,
    HIDE,                         /* a path matches: the names of members stay */
    HIDE_NAMES                    /* without text, below a member that is not listed */
};

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
    bool found = false;
    int i;

    for (i = 0; i < w->rules->n_paths; i++)
        if (path_matches(&w->rules->path[i], w)) {
            if (w->write && w->hits)
                w->hits[i]++;
            found = true;
        }
    return found;
}

/* The nearest member above the value, array indices skipped; NULL: none. */
static const struct step *near_member(const struct walk *w)
{
    int i = w->depth - 1;

    while (i >= w->base && w->step[i].index)
        i--;
    return i >= w->base ? &w->step[i] : NULL;
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

static int walk_string(struct walk *w, enum fate fate)
{
    size_t end = string_end(w), from = w->at + 1;
    const struct step *near = near_member(w);

    if (!end)
        return TD_ECORRUPT;
    w->at = end;
    if (!w->write || (!fate && (!w->rules->no_text ||
                                td_harmless_string(near ? near->kind : TD_HARMLESS_NO, w->s + from, end - 1 - from))))
        return TD_OK;
    if (near && (!strcmp(near->key, "base64") || !strcmp(near->key, "text_base64")))
        hide_base64(w, from, end - 1);
    else
        hide_string(w, from, end - 1);
    return TD_OK;
}

/* Are numbers, true and false overwritten here? */
static bool hides_numbers(const struct walk *w, enum fate fate)
{
    const struct step *near = near_member(w);

    return fate || (w->rules->no_text && !td_harmless_number(near ? near->kind : TD_HARMLESS_NO));
}

static int walk_number(struct walk *w, enum fate fate)
{
    bool hide = w->write && hides_numbers(w, fate);
    size_t from = w->at, i;

    while (w->at < w->n && w->s[w->at] && strchr("+-.eE0123456789", w->s[w->at]))
        w->at++;
    for (i = from; hide && i < w->at; i++)
        if (isdigit((unsigned char)w->s[i])) {
            w->s[i] = '1';
            w->changed++;
        }
    return TD_OK;
}

static int walk_word(struct walk *w, enum fate fate)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    size_t i;

    for (i = 0; i < 6; i++) {
        size_t n = strlen(words[i]);

        if (w->n - w->at < n || memcmp(w->s + w->at, words[i], n))
            continue;
        if (w->write && i < 2 && hides_numbers(w, fate)) {
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

static int walk_value(struct walk *w, enum fate fate);

/* Decode a key so that \u0063ontent is content. */
static void read_key(struct walk *w, size_t from, size_t to)
{
    struct step *st = &w->step[w->depth];
    size_t n = 0, i = from;

    st->index = false;
    while (i < to && n < TD_REDACT_KEY_MAX - 1) {
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

/* Look a member up, without text. True: its name is overwritten. */
static bool name_is_text(struct walk *w, size_t from, size_t to)
{
    const struct step *near = near_member(w);
    struct step *st = &w->step[w->depth];
    size_t i;

    st->kind = td_harmless_member(st->key);
    if (st->kind || !near || near->kind != TD_HARMLESS_MAP)
        return !st->kind;
    st->kind = TD_HARMLESS_NUMBER; /* {" Paris": -0.1, ...} and {"17": {"logprob": ...}} */
    for (i = from; i < to && isdigit((unsigned char)w->s[i]); i++)
        ;
    return i < to && !td_harmless_token_id(w->s + from, to - from);
}

static int walk_member(struct walk *w, enum fate fate)
{
    size_t from = w->at + 1, end;
    bool hide_name = fate == HIDE_NAMES;
    int rc;

    if (w->at >= w->n || w->s[w->at] != '"' || !(end = string_end(w)))
        return TD_ECORRUPT;
    read_key(w, from, end - 1);
    if (w->rules->no_text && !hide_name)
        hide_name = name_is_text(w, from, end - 1);
    if (w->write && hide_name)
        hide_string(w, from, end - 1);
    w->at = end;
    skip_blanks(w);
    if (w->at >= w->n || w->s[w->at] != ':')
        return TD_ECORRUPT;
    w->at++;
    if (hide_name && !w->step[w->depth].kind)
        fate = HIDE_NAMES;
    w->depth++;
    rc = walk_value(w, fate);
    w->depth--;
    return rc;
}

static int walk_container(struct walk *w, char close, enum fate fate)
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
            rc = walk_member(w, fate);
        } else {
            w->step[w->depth].index = true;
            w->depth++;
            rc = walk_value(w, fate);
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

static int walk_value(struct walk *w, enum fate fate)
{
    skip_blanks(w);
    if (w->at >= w->n)
        return TD_ECORRUPT;
    if (any_path(w) && !fate)
        fate = HIDE;
    switch (w->s[w->at]) {
    case '{': return walk_container(w, '}', fate);
    case '[': return walk_container(w, ']', fate);
    case '"': return walk_string(w, fate);
    case '-':
        return w->at + 1 < w->n && w->s[w->at + 1] == 'I' ? walk_word(w, fate) : walk_number(w, fate);
    default:
        return isdigit((unsigned char)w->s[w->at]) ? walk_number(w, fate) : walk_word(w, fate);
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

int64_t td_redact_json(const struct td_redact_rules *rules, int64_t *hits, char *text, size_t n)
{
    struct walk *w = walk_new(rules, text, n);
    int64_t changed = TD_ECORRUPT;
    int pass;

    for (pass = 0; w && pass < 2; pass++) {
        w->at = 0;
        w->write = pass == 1;
        w->hits = hits;
        if (walk_value(w, BY_RULES))
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

/* ---- our own lines ----------------------------------------------------------------------------- */

/* What becomes of a member of an exchange's line, which the caller has read. */
static enum fate fate_of_member(struct walk *w, bool answers)
{
    static const char *const ANSWER[] = {"text", "text_base64", "token_text", NULL},
                            *const OURS[] = {"prompt_id", "category", "path", "error", NULL};
    struct step *st = &w->step[0];

    if (answers && is_listed(ANSWER, st->key))
        return HIDE;
    if (!w->rules->no_text || w->base)
        return BY_RULES;
    if (is_listed(OURS, st->key)) {
        st->kind = TD_HARMLESS_TEXT;
        return BY_RULES;
    }
    return name_is_text(w, 0, 0) ? HIDE_NAMES : BY_RULES;
}

static void hide_error(struct walk *w)
{
    size_t from = w->at + 1, end = w->s[w->at] == '"' ? string_end(w) : 0;

    if (end)
        w->changed += (int64_t)td_harmless_sentence(w->s + from, end - 1 - from);
}

static int walk_exchange(struct walk *w, bool answers, bool error)
{
    int rc = TD_OK;

    while (!rc && w->at < w->n && w->s[w->at] == '"') {
        size_t from = w->at + 1, end = string_end(w);
        enum fate fate;

        if (!end || end >= w->n)
            break;
        read_key(w, from, end - 1);
        w->base = strcmp(w->step[0].key, "request") ? 0 : 1;
        fate = fate_of_member(w, answers);
        if (fate == HIDE_NAMES)
            hide_string(w, from, end - 1);
        w->at = end + 1; /* our own line: no blanks */
        if (w->at < w->n && error && !strcmp(w->step[0].key, "error"))
            hide_error(w);
        w->depth = 1;
        rc = walk_value(w, fate);
        w->depth = w->base = 0;
        if (w->at < w->n && w->s[w->at] == ',')
            w->at++;
    }
    return rc;
}

int64_t td_redact_exchange_json(const struct td_redact_rules *rules, bool answers, bool error, char *text, size_t n)
{
    struct walk *w = n && *text == '{' ? walk_new(rules, text, n) : NULL;
    int64_t changed = TD_ECORRUPT;

    if (!w)
        return TD_ECORRUPT;
    w->write = true;
    w->at = 1;
    if (!walk_exchange(w, answers, error))
        changed = w->changed;
    free(w);
    return changed;
}
