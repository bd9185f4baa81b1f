/* redact.c - the rules of redaction, applied to records.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact.h"

#include <stdlib.h>
#include <string.h>

#include "format/fixture.h"
#include "format/redact_words.h"

static const char *const ALWAYS_HEADERS[] = {
    "Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "X-Api-Key", "Api-Key", NULL};
#define MAX_HEADERS 64
#define BUCKETS 4096

struct td_redactor {
    struct td_redact_http http;       /* rules, counts, bytes held */
    char *header[MAX_HEADERS + 1];
    char *path[TD_REDACT_MAX_PATHS + 1];
    struct td_redact_stream *bucket[BUCKETS];
};

/* Append the strings of `in` that are not there yet. */
static int add_list(char **out, int max, const char *const *in, const char *what, struct td_error *err)
{
    int n = 0, i;

    while (out[n])
        n++;
    for (; in && *in; in++) {
        for (i = 0; i < n && strcmp(out[i], *in) != 0; i++)
            ;
        if (i < n)
            continue;
        if (n == max)
            return td_fail(err, TD_EINVAL, "redaction: more than %d %s", max, what);
        out[n] = strdup(*in);
        if (!out[n++])
            return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    }
    return TD_OK;
}

int td_redactor_new(const struct td_redaction *rules, struct td_redactor **out, struct td_error *err)
{
    struct td_redactor *r = calloc(1, sizeof *r);
    int i, rc;

    *out = NULL;
    if (!r)
        return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    rc = add_list(r->header, MAX_HEADERS, ALWAYS_HEADERS, "headers", err);
    if (!rc)
        rc = add_list(r->header, MAX_HEADERS, rules ? rules->headers : NULL, "headers", err);
    if (!rc)
        rc = add_list(r->path, TD_REDACT_MAX_PATHS, rules ? rules->json_paths : NULL, "JSON paths", err);
    for (i = 0; !rc && r->path[i]; i++) {
        rc = td_redact_path_parse(&r->http.rules.path[i], r->path[i], err);
        r->http.rules.n_paths += !rc;
    }
    if (rc) {
        td_redactor_free(r);
        return rc;
    }
    r->http.rules.no_text = rules && rules->no_text;
    r->http.headers = (const char *const *)r->header;
    *out = r;
    return TD_OK;
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
    for (i = 0; i < MAX_HEADERS; i++)
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

/* Can a path reach the answer's text in its body? Then the text derived from it is hidden, too. */
static bool reaches_answers(const struct td_redact_rules *rules)
{
    static const char *const names[] = {"choices", "content", "text",   "delta",
                                        "message", "token",   "tokens", "completion_probabilities",
                                        NULL};
    int i, k;

    for (i = 0; i < rules->n_paths; i++) {
        const struct td_redact_path *p = &rules->path[i];
        const char *ends[2] = {p->part[0].name, p->part[p->n - 1].name};

        for (k = 0; k < 2; k++) {
            const char *const *n;

            for (n = names; ends[k] && *n; n++)
                if (!strcmp(ends[k], *n))
                    return true;
        }
    }
    return false;
}

void td_redactor_exchange(struct td_redactor *r, char *line, size_t n)
{
    const struct td_redact_rules *rules = &r->http.rules;
    struct td_redact_rules own = *rules;
    bool from_server = memmem(line, n, "\"error_kind\":\"http\"", 19) || memmem(line, n, "\"error_kind\":\"stream\"", 21) ||
                       memmem(line, n, "\"error_kind\":\"parse\"", 20);
    char *path = memmem(line, n, "\"path\":\"", 8); /* our own lines have it before the request */
    int64_t changed;

    if (path)
        r->http.counts.urls += td_redact_query(path, strcspn(path + 8, "\"") + 8);
    if (!rules->n_paths && !rules->no_text)
        return;
    own.no_errors = true; /* errors of our own client stay readable */
    changed = td_redact_exchange_json(&own, rules->no_text || reaches_answers(rules), rules->no_text && from_server, line, n);
    if (changed > 0)
        r->http.counts.json += changed;
}

const struct td_redact_counts *td_redactor_counts(const struct td_redactor *r)
{
    return &r->http.counts;
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
