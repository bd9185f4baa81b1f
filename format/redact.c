/* redact.c - the rules of redaction, applied to records.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/fixture.h"
#include "format/harmless.h"
#include "format/redact_fact.h"
#include "format/redact_members.h"
#include "format/redact_stars.h"
#include "format/redact_words.h"
#include "format/secret_names.h"

/* What the manifest names. Any header with a secret's name is overwritten besides. */
static const char *const ALWAYS_HEADERS[] = {
    "Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "X-Api-Key", "Api-Key", NULL};
#define N_ALWAYS (sizeof ALWAYS_HEADERS / sizeof *ALWAYS_HEADERS - 1)
#define BUCKETS 4096

struct td_redactor {
    struct td_redact_http http;       /* rules, counts, bytes held */
    struct td_redact_values own;      /* of the headers that are sent, where the rules bring none */
    char *header[TD_REDACT_MAX_HEADERS + 1];
    int n_asked;                      /* of them; behind these are those that are sent */
    char *path[TD_REDACT_MAX_PATHS + 1];
    struct td_redact_stream *bucket[BUCKETS];
};

/* Append a string of n bytes, unless it is there. */
static int add_string(char **out, int max, const char *s, size_t n, const char *what, struct td_error *err)
{
    int k;

    for (k = 0; out[k]; k++)
        if (strlen(out[k]) == n && !strncasecmp(out[k], s, n))
            return TD_OK;
    if (k == max)
        return td_fail(err, TD_EINVAL, "redaction: more than %d %s", max, what);
    out[k] = strndup(s, n);
    return out[k] ? TD_OK : td_fail(err, TD_ENOMEM, "redaction: out of memory");
}

static int add_list(char **out, int max, const char *const *in, const char *what, struct td_error *err)
{
    int rc = TD_OK;

    for (; !rc && in && *in; in++)
        rc = add_string(out, max, *in, strlen(*in), what, err);
    return rc;
}

static bool is_shown(const char *const *shown, const char *name, size_t n)
{
    for (; shown && *shown; shown++)
        if (strlen(*shown) == n && !strncasecmp(*shown, name, n))
            return true;
    return false;
}

/* Every header that is sent is a secret, unless it is shown. */
static int add_sent(struct td_redactor *r, const struct td_redaction *rules, struct td_error *err)
{
    const char *const *h = rules->sent;
    int rc = TD_OK;

    for (; !rc && h && *h; h++) {
        size_t n = strcspn(*h, ":;");

        while (n && ((*h)[n - 1] == ' ' || (*h)[n - 1] == '\t'))
            n--;
        if (n && !is_shown(rules->shown, *h, n))
            rc = add_string(r->header, TD_REDACT_MAX_HEADERS, *h, n, "headers", err);
    }
    return rc || rules->values ? rc : td_redact_values_init(&r->own, rules->sent, err);
}

static int set_rules(struct td_redactor *r, const struct td_redaction *rules, struct td_error *err)
{
    int rc = add_list(r->header, TD_REDACT_MAX_HEADERS, ALWAYS_HEADERS, "headers", err), i;

    r->http.values = rules && rules->values ? rules->values : &r->own;
    if (!rc && rules)
        rc = add_list(r->header, TD_REDACT_MAX_HEADERS, rules->headers, "headers", err);
    while (r->header[r->n_asked])
        r->n_asked++;
    if (!rc && rules)
        rc = add_sent(r, rules, err);
    if (!rc && rules)
        rc = add_list(r->path, TD_REDACT_MAX_PATHS, rules->json_paths, "JSON paths", err);
    for (i = 0; !rc && r->path[i]; i++) {
        rc = td_redact_path_parse(&r->http.rules.path[i], r->path[i], err);
        r->http.rules.n_paths += !rc;
    }
    r->http.rules.no_text = rules && rules->no_text;
    r->http.headers = (const char *const *)r->header;
    return rc;
}

int td_redactor_new(const struct td_redaction *rules, struct td_redactor **out, struct td_error *err)
{
    struct td_redactor *r = calloc(1, sizeof *r);
    int rc;

    *out = NULL;
    if (!r)
        return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    rc = set_rules(r, rules, err);
    if (rc)
        td_redactor_free(r);
    else
        *out = r;
    return rc;
}

void td_redactor_free(struct td_redactor *r)
{
    int i;

    if (!r)
        return;
    for (i = 0; i < BUCKETS; i++)
        while (r->bucket[i]) {
            struct td_redact_stream *next = r->bucket[i]->next;

            td_redact_stream_free(&r->http, r->bucket[i]);
            r->bucket[i] = next;
        }
    for (i = 0; i < r->http.rules.n_paths; i++)
        td_redact_path_release(&r->http.rules.path[i]);
    td_redact_values_release(&r->own);
    for (i = 0; i < TD_REDACT_MAX_HEADERS; i++)
        free(r->header[i]);
    for (i = 0; i < TD_REDACT_MAX_PATHS; i++)
        free(r->path[i]);
    free(r);
}

/* ---- records -------------------------------------------------------------------------------------------------------- */

static bool is_close_note(const struct td_wire *rec)
{
    return rec->dir == TD_WIRE_NOTE && rec->len >= 9 &&
           memmem(rec->data, rec->len, "\"close\"", 7) &&
           !memmem(rec->data, rec->len, "\"open\"", 6);
}

int td_redactor_wire(struct td_redactor *r, const struct td_wire *rec, td_redact_emit *emit, void *ctx)
{
    struct td_redact_stream **at = &r->bucket[rec->stream % BUCKETS], *s;
    int rc;

    while (*at && (*at)->stream != rec->stream)
        at = &(*at)->next;
    if (!*at) {
        *at = td_redact_stream_new(rec->stream);
        if (!*at)
            return TD_ENOMEM;
    }
    s = *at;
    if (is_close_note(rec))
        td_redact_stream_end(&r->http, s);
    rc = td_redact_stream_add(&r->http, s, rec);
    if (!rc)
        rc = td_redact_stream_emit(&r->http, s, emit, ctx);
    if (!rc && is_close_note(rec)) {
        *at = s->next;
        td_redact_stream_free(&r->http, s);
    }
    return rc;
}

int td_redactor_finish(struct td_redactor *r, td_redact_emit *emit, void *ctx)
{
    struct td_redact_stream *s;
    int i, rc = TD_OK;

    for (i = 0; !rc && i < BUCKETS; i++)
        for (s = r->bucket[i]; !rc && s; s = s->next) {
            td_redact_stream_end(&r->http, s);
            rc = td_redact_stream_emit(&r->http, s, emit, ctx);
        }
    return rc;
}

/* Does the path lead to a member that makes an answer's text, or holds one that does? A last part without
 * a name ("choices[*]") is one of the member before it. */
static bool reaches_text(const struct td_redact_path *p)
{
    static const char *const names[] = {
        "choices",  "content",      "text",  "delta", "message", "token",
        "tokens",   "logprobs",     "bytes", "top_logprobs",     "completion_probabilities",
        "reasoning", "reasoning_content", NULL};
    const char *const *n;
    int i = p->n;

    while (i > 0 && !p->part[i - 1].name)
        i--;
    for (n = names; i > 0 && *n; n++)
        if (!strcmp(p->part[i - 1].name, *n))
            return true;
    return i == 0;                    /* it has no name at all */
}

bool td_redact_reaches_text(const char *path)
{
    struct td_redact_path p = {.n = 0};
    struct td_error err = {0, ""};
    const bool reaches = td_redact_path_parse(&p, path, &err) || reaches_text(&p);

    td_redact_path_release(&p);
    return reaches;
}

/* Is an answer's text overwritten in its body? Then the text derived from it is hidden, too. */
static bool reaches_answers(const struct td_redact_rules *rules)
{
    int i;

    for (i = 0; i < rules->n_paths; i++)
        if (reaches_text(&rules->path[i]))
            return true;
    return false;
}

/* Did the server write the sentence of this error? */
bool td_redactor_is_from_server(const char *kind, size_t n)
{
    static const char *const kinds[] = {"http", "stream", "parse", NULL};
    const char *const *k;

    for (k = kinds; *k; k++)
        if (strlen(*k) == n && !memcmp(*k, kind, n))
            return true;
    return false;
}

/* The text of a member of our own compact line, with the escapes of JSON; its length in *n. */
static char *find_member(char *line, size_t n, const char *member, size_t *n_value)
{
    size_t len = strlen(member), i;
    char *at = memmem(line, n, member, len), *end = line + n;

    if (!at)
        return NULL;
    for (i = 0, at += len; at + i < end && at[i] != '"'; i += at[i] == '\\' && at + i + 1 < end ? 2 : 1)
        ;
    *n_value = i;
    return at;
}

static int64_t hide_query(char *path, size_t n)
{
    char *query = memchr(path, '?', n);

    return query ? td_redact_stars(query + 1, (size_t)(path + n - query) - 1) : 0;
}

void td_redactor_exchange(struct td_redactor *r, char *line, size_t n)
{
    const struct td_redact_rules *rules = &r->http.rules;
    size_t n_path, n_kind;
    char *path = find_member(line, n, "\"path\":\"", &n_path), /* our own lines have it before the request */
         *kind = find_member(line, n, "\"error_kind\":\"", &n_kind);
    int64_t changed;

    if (path)
        r->http.counts.urls += rules->no_text ? hide_query(path, n_path) : td_redact_query(path, n_path);
    r->http.counts.values += td_redact_members(r->http.values, line, n, 1);
    if (!rules->n_paths && !rules->no_text)
        return;
    changed = td_redact_exchange_json(rules, rules->no_text || reaches_answers(rules),
                                      rules->no_text && kind && td_redactor_is_from_server(kind, n_kind), line, n);
    if (changed > 0)
        r->http.counts.json += changed;
}

void td_redactor_error(const struct td_redactor *r, bool from_server, char *error)
{
    size_t n = strlen(error);

    td_redact_values_apply(r->http.values, error, n, true);
    td_redact_text(error, n);
    if (from_server && r->http.rules.no_text)
        td_harmless_sentence(error, n);
}

cJSON *td_redactor_fact(const struct td_redactor *r, const char *section, const char *key, cJSON *fact)
{
    return td_redact_fact(r->http.values, r->http.rules.no_text, section, key, fact);
}

cJSON *td_redactor_unmatched(const struct td_redactor *r)
{
    cJSON *out = cJSON_CreateArray();
    char text[200];
    int i;

    for (i = (int)N_ALWAYS; i < r->n_asked; i++)
        if (!r->http.header_hits[i]) {
            snprintf(text, sizeof text, "header %.150s", r->header[i]);
            cJSON_AddItemToArray(out, cJSON_CreateString(text));
        }
    for (i = 0; r->path[i]; i++)
        if (!r->http.path_hits[i]) {
            snprintf(text, sizeof text, "path %.150s", r->path[i]);
            cJSON_AddItemToArray(out, cJSON_CreateString(text));
        }
    return out;
}

const struct td_redact_counts *td_redactor_counts(const struct td_redactor *r)
{
    return &r->http.counts;
}

bool td_redactor_is_secret_header(const struct td_redactor *r, const char *name, size_t n)
{
    int i;

    for (i = 0; r->header[i]; i++)
        if (strlen(r->header[i]) == n && !strncasecmp(r->header[i], name, n))
            return true;
    return td_secret_header(name, n);
}

const char *const *td_redactor_headers(const struct td_redactor *r)
{
    return r->http.headers;
}

const char *const *td_redactor_paths(const struct td_redactor *r)
{
    return (const char *const *)r->path;
}

bool td_redactor_no_text(const struct td_redactor *r)
{
    return r->http.rules.no_text;
}
