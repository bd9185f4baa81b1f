/* redact_lines.c - redact one line of HTTP, of server-sent events, or a body in one piece.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/harmless.h"
#include "format/redact_words.h"
#include "format/secret_names.h"

bool td_redact_is_line_end(uint8_t c)
{
    return c == '\r' || c == '\n';
}

int64_t td_redact_overwrite(uint8_t *p, size_t n)
{
    int64_t changed = 0;
    size_t i;

    for (i = 0; i < n; i++)
        if (!td_redact_is_line_end(p[i])) {
            p[i] = '*';
            changed++;
        }
    return changed;
}

/* ---- header lines --------------------------------------------------------------------------------------------------- */

static bool has_token(const char *s, size_t n, const char *token)
{
    size_t k = strlen(token), i;

    for (i = 0; i + k <= n; i++)
        if (!strncasecmp(s + i, token, k))
            return true;
    return false;
}

static bool name_is(const char *line, size_t n_name, const char *name)
{
    return strlen(name) == n_name && !strncasecmp(line, name, n_name);
}

/* A method: a token (RFC 9110, 5.6.2). In the midst of a connection that may be a text's word, too, so
 * there only capitals are one. */
static bool is_method(const char *p, size_t n, bool between_messages)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (between_messages ? !isalnum((unsigned char)p[i]) && !strchr("!#$%&'*+-.^_`|~", p[i])
                             : !isupper((unsigned char)p[i]))
            return false;
    return n && n <= (between_messages ? 200 : 16) && !memchr(p, '\0', n);
}

/* "HTTP/1.1 200 OK" or "POST /path HTTP/1.1". */
bool td_redact_read_start_line(struct td_redact_stream *s, struct td_redact_side *d, const char *p,
                            size_t n)
{
    const char *sp = memchr(p, ' ', n);
    size_t method = sp ? (size_t)(sp - p) : 0, i;

    d->status = 0;
    if (n >= 5 && !memcmp(p, "HTTP/", 5)) {
        for (i = 1; sp && method + i < n && i <= 3 && isdigit((unsigned char)sp[i]); i++)
            d->status = d->status * 10 + (sp[i] - '0');
        return !d->request;
    }
    if (!d->request || !sp || !is_method(p, method, d->state == TD_RS_START) ||
        !has_token(sp, n - method, " HTTP/"))
        return false;
    s->head_request = method == 4 && !memcmp(p, "HEAD", 4);
    return true;
}

static void note_header(struct td_redact_side *d, const char *p, size_t name, const char *value,
                        size_t n)
{
    char digits[24];

    if (name_is(p, name, "Content-Length") && n < sizeof digits) {
        memcpy(digits, value, n);
        digits[n] = '\0';
        d->length = strtoll(digits, NULL, 10);
    } else if (name_is(p, name, "Transfer-Encoding")) {
        d->chunked = d->chunked || has_token(value, n, "chunked");
    } else if (name_is(p, name, "Content-Encoding")) {
        while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
            n--;
        d->encoded = d->encoded || !name_is(value, n, "identity");
    } else if (name_is(p, name, "Content-Type")) {
        d->sse = has_token(value, n, "text/event-stream") || has_token(value, n, "ndjson") || has_token(value, n, "jsonl");
    }
}

static bool is_secret_header(struct td_redact_http *h, const char *name, size_t n)
{
    size_t i;

    for (i = 0; h->headers[i]; i++)
        if (name_is(name, n, h->headers[i])) {
            h->header_hits[i]++;
            return true;
        }
    return td_secret_header(name, n);
}

/* Hide keys in text that is kept otherwise. */
void td_redact_kept_text(struct td_redact_http *h, char *p, size_t n)
{
    h->counts.values += td_redact_values_apply(h->values, p, n, false);
    h->counts.urls += td_redact_text(p, n);
}

/* A line that continues the one before. */
static void redact_folded_line(struct td_redact_http *h, const struct td_redact_side *d, char *p, size_t n)
{
    if (d->hide_fold || h->rules.no_text)
        h->counts.headers += td_redact_overwrite((uint8_t *)p + 1, n - 1);
    else
        td_redact_kept_text(h, p, n);
}

/* Redact one header line in place, without its line end. */
void td_redact_header_line(struct td_redact_http *h, struct td_redact_side *d, char *p,
                               size_t n)
{
    char *colon = memchr(p, ':', n), *value;
    size_t name = colon ? (size_t)(colon - p) : 0;

    if (n && (*p == ' ' || *p == '\t')) {
        redact_folded_line(h, d, p, n);
        return;
    }
    d->hide_fold = false;
    if (!colon) {
        if (h->rules.no_text)
            h->counts.headers += td_redact_overwrite((uint8_t *)p, n);
        else
            td_redact_kept_text(h, p, n);
        return;
    }
    while (name && (p[name - 1] == ' ' || p[name - 1] == '\t'))
        name--;
    for (value = colon + 1; value < p + n && (*value == ' ' || *value == '\t'); value++)
        ;
    note_header(d, p, name, value, (size_t)(p + n - value));
    d->hide_fold = is_secret_header(h, p, name);
    if (h->rules.no_text && !(td_harmless_header(p, name) &&
                              td_harmless_header_value(p, name, value, (size_t)(p + n - value), d->request))) {
        d->hide_fold = true;
        if (!td_secret_header(p, name) && !td_harmless_header(p, name))
            h->counts.headers += td_redact_overwrite((uint8_t *)p, name);
    }
    if (!td_harmless_header(p, name))
        h->counts.values += td_redact_values_apply(h->values, p, name, false);
    if (d->hide_fold)
        h->counts.headers += td_redact_overwrite((uint8_t *)value, (size_t)(p + n - value));
    else
        td_redact_kept_text(h, value, (size_t)(p + n - value));
}

/* Without text: the reason behind the status, and what stands in the query, are overwritten. */
void td_redact_start_line(struct td_redact_http *h, const struct td_redact_side *d, char *p, size_t n)
{
    char *blank = memchr(p, ' ', n), *last = memrchr(p, ' ', n);
    size_t i = 0, from = n;

    if (blank) /* the method, and the version, are words of HTTP */
        h->counts.values += td_redact_values_apply(h->values, blank, (size_t)((d->request && last > blank ? last : p + n) - blank), false);
    h->counts.urls += td_redact_query(p, n);
    if (!h->rules.no_text)
        return;
    if (d->request) {
        char *query = memchr(p, '?', n), *end = query ? memchr(query, ' ', (size_t)(p + n - query)) : NULL;

        if (query)
            h->counts.urls += td_redact_overwrite((uint8_t *)query + 1, (size_t)((end ? end : p + n) - query) - 1);
        return;
    }
    for (i = 5; i < n && (isdigit((unsigned char)p[i]) || p[i] == '.' || p[i] == ' ') && i < 13; i++)
        ;
    from = i;
    if (from < n && !td_harmless_reason(p + from, n - from))
        h->counts.headers += td_redact_overwrite((uint8_t *)p + from, n - from);
}

/* ---- bodies ---------------------------------------------------------------------------------------- */

/* JSON by the rules, anything else entirely. */
static void redact_json(struct td_redact_http *h, char *p, size_t n)
{
    int64_t changed = td_redact_json(&h->rules, h->path_hits, p, n);

    if (changed >= 0)
        h->counts.json += changed;
    else
        h->counts.unparsed += td_redact_overwrite((uint8_t *)p, n);
}

void td_redact_body(struct td_redact_http *h, char *p, size_t n)
{
    h->counts.values += td_redact_values_apply(h->values, p, n, false);
    redact_json(h, p, n);
}

static bool begins(const char *p, size_t n, const char *with)
{
    size_t k = strlen(with);

    return n >= k && !memcmp(p, with, k);
}

static bool is_number(const char *p, size_t n)
{
    while (n && isdigit((unsigned char)p[n - 1]))
        n--;
    return !n;
}

/* The value of an SSE field other than data: of event and retry what is harmless stays. False: it has
 * no such name. */
static bool redact_field(struct td_redact_http *h, char *p, size_t n)
{
    bool event = begins(p, n, "event:");
    size_t at = 6;

    if (!event && !begins(p, n, "retry:"))
        return false;
    while (at < n && p[at] == ' ')
        at++;
    if (h->rules.no_text && !(event ? td_harmless_event(p + at, n - at) : is_number(p + at, n - at)))
        h->counts.unparsed += td_redact_overwrite((uint8_t *)p + at, n - at);
    return true;
}

/* Redact one line of SSE or of JSON lines, with its line end. */
void td_redact_body_line(struct td_redact_http *h, char *p, size_t n)
{
    char *colon;
    size_t at = 0;

    while (n && td_redact_is_line_end((uint8_t)p[n - 1]))
        n--;
    h->counts.values += td_redact_values_apply(h->values, p, n, false);
    if (!n || redact_field(h, p, n))
        return;
    colon = memchr(p, ':', n);
    if (begins(p, n, "data:") || begins(p, n, "error:") || begins(p, n, ":") || begins(p, n, "id:"))
        at = (size_t)(colon - p) + 1;
    else if (*p != '{' && *p != '[' && !h->rules.no_text)
        at = colon ? (size_t)(colon - p) + 1 : 0;
    while (at < n && (p[at] == ' ' || p[at] == '\t'))
        at++;
    if (n - at == 6 && !memcmp(p + at, "[DONE]", 6))
        return;
    if (at < n)
        redact_json(h, p + at, n - at);
}
