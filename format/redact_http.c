/* redact_http.c - redact one stream of wire records.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "format/harmless.h"
#include "format/redact_lines.h"
#include "format/redact_members.h"
#include "format/redact_words.h"

struct td_redact_held {
    struct td_redact_held *next;
    struct td_wire rec;
    size_t open;              /* spans of units that lie in it */
    uint8_t data[];
};

struct td_redact_stream *td_redact_stream_new(uint32_t stream)
{
    struct td_redact_stream *s = calloc(1, sizeof *s);
    int i;

    if (!s)
        return NULL;
    s->stream = stream;
    s->tail = &s->head;
    for (i = 0; i < 2; i++) {
        s->side[i].request = i == TD_WIRE_SENT;
        td_buf_init(&s->side[i].unit, TD_REDACT_HOLD_MAX + TD_REDACT_LINE_MAX);
    }
    return s;
}

void td_redact_stream_free(struct td_redact_http *h, struct td_redact_stream *s)
{
    struct td_redact_held *next;
    int i;

    for (; s->head; s->head = next) {
        next = s->head->next;
        free(s->head);
    }
    for (i = 0; i < 2; i++) {
        h->held -= s->side[i].unit.len;
        td_buf_release(&s->side[i].unit);
        free(s->side[i].span);
    }
    free(s);
}

/* ---- units ---------------------------------------------------------------------------------------------------------- */

static void mark_changed(struct td_redact_held *rec)
{
    rec->rec.redacted = true;
}

/* The first n bytes of the unit are redacted: copy changed bytes back into the records, and release what
 * no unit needs any more. */
static void unit_close_to(struct td_redact_http *h, struct td_redact_side *d, size_t n)
{
    const char *p = d->unit.data;
    size_t left = n, i;

    for (i = 0; i < d->n_spans && left; i++) {
        struct td_redact_span *sp = &d->span[i];
        size_t len = sp->len < left ? sp->len : left;

        if (memcmp(sp->rec->data + sp->at, p, len)) {
            memcpy(sp->rec->data + sp->at, p, len);
            mark_changed(sp->rec);
        }
        p += len;
        left -= len;
        sp->at += len;
        sp->len -= len;
        if (sp->len)
            break;
        sp->rec->open--;
    }
    if (i)
        memmove(d->span, d->span + i, (d->n_spans - i) * sizeof *d->span);
    d->n_spans -= i;
    h->held -= n;
    td_buf_consume(&d->unit, n);
    if (!d->unit.len && d->unit.cap > TD_REDACT_LINE_MAX)
        td_buf_release(&d->unit);
}

static void unit_close(struct td_redact_http *h, struct td_redact_side *d)
{
    unit_close_to(h, d, d->unit.len);
}

static int unit_add(struct td_redact_http *h, struct td_redact_side *d, struct td_redact_held *rec, size_t at, size_t n)
{
    struct td_redact_span *last = d->n_spans ? &d->span[d->n_spans - 1] : NULL;

    if (!n)
        return TD_OK;
    if (last && last->rec == rec && last->at + last->len == at) {
        if (td_buf_add(&d->unit, rec->data + at, n))
            return TD_ENOMEM;
        last->len += n;
    } else {
        if (td_array_grow(&d->span, d->n_spans, &d->cap_spans, sizeof *d->span, SIZE_MAX) ||
            td_buf_add(&d->unit, rec->data + at, n))
            return TD_ENOMEM;
        d->span[d->n_spans++] = (struct td_redact_span){rec, at, n};
        rec->open++;
    }
    h->held += n;
    return TD_OK;
}

/* ---- bodies --------------------------------------------------------------------------------------------------------- */

static void begin_message(struct td_redact_side *d)
{
    d->length = -1;
    d->chunked = d->encoded = d->sse = d->hide_fold = false;
    d->state = TD_RS_HEADERS;
}

static bool has_body_rules(const struct td_redact_http *h)
{
    return h->rules.n_paths || h->rules.no_text;
}

static void begin_body(struct td_redact_http *h, struct td_redact_stream *s,
                       struct td_redact_side *d)
{
    bool none = d->request ? !d->chunked && d->length <= 0
                           : (d->status >= 100 && d->status < 200 && d->status != 101) || d->status == 204 || d->status == 304 ||
                                 (s->head_request && d->status >= 200) || (d->length == 0 && !d->chunked);

    d->state = TD_RS_START;
    if (none)
        return;
    if (d->encoded || (has_body_rules(h) && d->status == 101)) /* compressed: it cannot be searched */
        d->body = TD_RB_WIPE;
    else if (!has_body_rules(h))
        d->body = TD_RB_PASS;
    else
        d->body = d->sse ? TD_RB_LINES : TD_RB_COMPLETE;
    d->n_chunk = 0;
    d->chunk[0] = '\0';
    d->first_chunk = true;
    d->over = false;
    d->left = d->length > 0 ? (uint64_t)d->length : 0;
    d->state = d->chunked ? TD_RS_CHUNK_SIZE : d->length > 0 ? TD_RS_LENGTH : TD_RS_UNTIL_CLOSE;
}

/* The unit exceeds a limit: overwrite it, and the rest of this body as it comes. */
static void wipe_unit(struct td_redact_http *h, struct td_redact_side *d)
{
    h->counts.over_limit += td_redact_overwrite((uint8_t *)d->unit.data, d->unit.len);
    unit_close(h, d);
    d->body = TD_RB_WIPE;
    d->over = true;
}

/* broken : it ends where a value may be cut off */
static void end_body(struct td_redact_http *h, struct td_redact_side *d, bool broken)
{
    if (d->unit.len && d->body == TD_RB_PASS)
        h->counts.values += td_redact_values_apply(h->values, d->unit.data, d->unit.len, broken);
    else if (d->unit.len && d->body == TD_RB_LINES)
        td_redact_body_line(h, d->unit.data, d->unit.len);
    else if (d->unit.len)
        td_redact_body(h, d->unit.data, d->unit.len);
    unit_close(h, d);
    d->state = TD_RS_START;
}

/* No rule applies, but a secret header's value may come back: what may be its beginning is held. */
static int pass_body_bytes(struct td_redact_http *h, struct td_redact_side *d, struct td_redact_held *rec, size_t at, size_t n)
{
    size_t decided;

    if (!td_redact_values_any(h->values))
        return TD_OK;
    if (h->held + n > TD_REDACT_HOLD_ALL_MAX) {
        h->counts.values += td_redact_values_apply(h->values, d->unit.data, d->unit.len, true);
        unit_close(h, d);
    }
    if (unit_add(h, d, rec, at, n))
        return TD_ENOMEM;
    h->counts.values += td_redact_values_begin(h->values, d->unit.data, d->unit.len, &decided);
    unit_close_to(h, d, decided);
    return TD_OK;
}

static int add_body_bytes(struct td_redact_http *h, struct td_redact_side *d,
                          struct td_redact_held *rec, size_t at, size_t n)
{
    while (n) {
        uint8_t *nl;
        size_t part = n;

        if (d->body == TD_RB_PASS)
            return pass_body_bytes(h, d, rec, at, n);
        if (d->body == TD_RB_WIPE) {
            *(d->over ? &h->counts.over_limit : &h->counts.unparsed) += td_redact_overwrite(rec->data + at, n);
            mark_changed(rec);
            return TD_OK;
        }
        nl = d->body == TD_RB_LINES ? memchr(rec->data + at, '\n', n) : NULL;
        if (nl)
            part = (size_t)(nl - (rec->data + at)) + 1;
        if (d->unit.len + part > TD_REDACT_HOLD_MAX || h->held + part > TD_REDACT_HOLD_ALL_MAX) {
            wipe_unit(h, d);
            continue;
        }
        if (unit_add(h, d, rec, at, part))
            return TD_ENOMEM;
        if (nl) {
            td_redact_body_line(h, d->unit.data, d->unit.len);
            unit_close(h, d);
        }
        at += part;
        n -= part;
    }
    return TD_OK;
}

/* ---- the parser ------------------------------------------------------------------------------ */

/* Does one reader end the headers at this line of n bytes where another one reads on? libcurl ends them at any line that
 * begins with "\r", td_http (wire/http.c) at one that is empty but for one "\r", or begins with NUL. */
static bool is_ambiguous(const char *line, size_t n)
{
    return memchr(line, '\0', n) || (*line == '\r' && n > 1 && line[1] != '\n');
}

/* What follows is a header to one reader, and body to another. It is redacted as both, n bytes at a time; where a value is
 * looked for, it is overwritten, for chunks of that body may cut the value. */
static void redact_ambiguous_line(struct td_redact_http *h, struct td_redact_side *d, char *p, size_t n)
{
    for (; n && *p == '\r'; n--)
        p++;
    if (has_body_rules(h) || td_redact_values_any(h->values)) {
        h->counts.unparsed += td_redact_overwrite((uint8_t *)p, n);
    } else if (n) {
        h->counts.urls += td_redact_query(p, n);
        td_redact_header_line(h, d, p, n);
        td_redact_kept_text(h, p, n);
    }
}

/* Redact a complete line of a message's head, which is in the unit. */
static void redact_head_line(struct td_redact_http *h, struct td_redact_stream *s,
                             struct td_redact_side *d)
{
    char *p = d->unit.data;
    size_t n = d->unit.len;

    if ((d->state == TD_RS_HEADERS || d->state == TD_RS_TRAILERS) && is_ambiguous(p, n))
        d->state = TD_RS_AMBIGUOUS;
    while (n && td_redact_is_line_end((uint8_t)p[n - 1]))
        n--;
    if (d->state == TD_RS_AMBIGUOUS) {
        redact_ambiguous_line(h, d, p, n);
        unit_close(h, d);
        return;
    }
    if ((d->state == TD_RS_START || d->state == TD_RS_UNSYNCED) && td_redact_read_start_line(s, d, p, n)) {
        begin_message(d);
        td_redact_start_line(h, d, p, n);
        unit_close(h, d);
        return;
    }
    if (d->state == TD_RS_START && n)
        d->state = TD_RS_UNSYNCED;
    if (d->state == TD_RS_UNSYNCED && has_body_rules(h)) {
        h->counts.unparsed += td_redact_overwrite((uint8_t *)p, n);
    } else if (d->state == TD_RS_UNSYNCED) {
        td_redact_header_line(h, d, p, n);
        td_redact_kept_text(h, p, n);
    } else if (d->state == TD_RS_TRAILERS || d->state == TD_RS_HEADERS) {
        if (n)
            td_redact_header_line(h, d, p, n);
        unit_close(h, d);
        if (!n && d->state == TD_RS_HEADERS)
            begin_body(h, s, d);
        else if (!n)
            d->state = TD_RS_START;
        return;
    }
    unit_close(h, d);
}

static int add_head_bytes(struct td_redact_http *h, struct td_redact_stream *s,
                          struct td_redact_side *d, struct td_redact_held *rec, size_t at,
                          size_t *used)
{
    size_t n = rec->rec.len - at;
    uint8_t *nl = memchr(rec->data + at, '\n', n);

    if (nl)
        n = (size_t)(nl - (rec->data + at)) + 1;
    *used = n;
    /* no header is that long: overwrite all of this side from here on */
    if (d->unit.len + n > TD_REDACT_LINE_MAX) {
        wipe_unit(h, d);
        d->state = TD_RS_UNTIL_CLOSE;
        *used = 0;
        return TD_OK;
    }
    if (unit_add(h, d, rec, at, n))
        return TD_ENOMEM;
    if (nl)
        redact_head_line(h, s, d);
    return TD_OK;
}

/* Read a byte of a chunk's size line. False: it cannot belong to one. */
static bool read_chunk_size_byte(struct td_redact_side *d, char c)
{
    bool sized = strpbrk(d->chunk, ";\r \t") != NULL; /* a chunk extension follows the size */

    if (c == '\n') {
        d->left = strtoull(d->chunk, NULL, 16);
        d->state = d->left ? TD_RS_CHUNK_DATA : TD_RS_TRAILERS;
        d->first_chunk = false;
        c = d->chunk[0];
        d->n_chunk = 0;
        d->chunk[0] = '\0';
        return c && d->left < 1ULL << 40;
    }
    if (!isxdigit((unsigned char)c) && (!d->n_chunk || (!sized && !strchr(";\r \t", c))))
        return false;
    if (d->n_chunk < sizeof d->chunk - 1) {
        d->chunk[d->n_chunk++] = c;
        d->chunk[d->n_chunk] = '\0';
        return true;
    }
    return sized;
}

/* Are the next bytes an extension of a chunk, of no use, and where a secret may stand? Behind the blank of
 * "Bad Request" they may be a body without framing. */
static bool hides_extension(const struct td_redact_http *h, const struct td_redact_side *d)
{
    if (h->rules.no_text || (td_redact_values_any(h->values) && !d->first_chunk))
        return strpbrk(d->chunk, "; \t") != NULL;
    return td_redact_values_any(h->values) && strchr(d->chunk, ';');
}

static int read_chunk_size(struct td_redact_http *h, struct td_redact_side *d,
                           struct td_redact_held *rec, size_t at, size_t *used)
{
    size_t i, from = at;
    uint8_t *end = memchr(rec->data + at, '\n', rec->rec.len - at);
    int64_t values = td_redact_values_apply(h->values, (char *)rec->data + at, (end ? (size_t)(end - rec->data) : rec->rec.len) - at, false);

    h->counts.values += values;
    rec->rec.redacted = rec->rec.redacted || values;
    for (i = at; i < rec->rec.len && d->state == TD_RS_CHUNK_SIZE; i++) {
        if (hides_extension(h, d) && !td_redact_is_line_end(rec->data[i])) {
            h->counts.unparsed += td_redact_overwrite(rec->data + i, 1);
            mark_changed(rec);
            continue;
        }
        if (!read_chunk_size_byte(d, (char)rec->data[i])) {
            /* No chunk: either the transport has removed the framing (then all bytes are body), or
             * the message is broken. The bytes read as a size line were hexadecimal digits and may
             * pass. */
            d->state = TD_RS_UNTIL_CLOSE;
            if (!d->first_chunk && has_body_rules(h))
                wipe_unit(h, d);
            *used = i - from;
            return d->first_chunk ? add_body_bytes(h, d, rec, from, i - from) : TD_OK;
        }
    }
    *used = i - from;
    if (d->state == TD_RS_TRAILERS && d->body != TD_RB_WIPE) {
        end_body(h, d, false);
        d->state = TD_RS_TRAILERS;
    }
    return TD_OK;
}

static int add_side_bytes(struct td_redact_http *h, struct td_redact_stream *s,
                          struct td_redact_side *d, struct td_redact_held *rec)
{
    size_t at = 0, used, len = rec->rec.len;
    int rc = TD_OK;

    while (!rc && at < len) {
        used = len - at;
        switch (d->state) {
        case TD_RS_START:
        case TD_RS_HEADERS:
        case TD_RS_UNSYNCED:
        case TD_RS_AMBIGUOUS:
        case TD_RS_TRAILERS:
            rc = add_head_bytes(h, s, d, rec, at, &used);
            break;
        case TD_RS_UNTIL_CLOSE:
            rc = add_body_bytes(h, d, rec, at, used);
            break;
        case TD_RS_CHUNK_SIZE:
            rc = read_chunk_size(h, d, rec, at, &used);
            break;
        case TD_RS_LENGTH:
        case TD_RS_CHUNK_DATA:
            if (used > d->left)
                used = (size_t)d->left;
            rc = add_body_bytes(h, d, rec, at, used);
            d->left -= used;
            if (!d->left && d->state == TD_RS_LENGTH)
                end_body(h, d, false);
            else if (!d->left)
                d->state = TD_RS_CHUNK_END;
            break;
        case TD_RS_CHUNK_END:
            used = 1;
            if (rec->data[at] == '\n')
                d->state = TD_RS_CHUNK_SIZE;
            else if (rec->data[at] != '\r') {
                d->state = TD_RS_UNTIL_CLOSE;
                if (has_body_rules(h))
                    wipe_unit(h, d);
                used = 0;
            }
            break;
        }
        at += used;
    }
    return rc;
}

int td_redact_stream_add(struct td_redact_http *h, struct td_redact_stream *s,
                         const struct td_wire *rec)
{
    struct td_redact_held *held = malloc(sizeof *held + rec->len);

    if (!held)
        return TD_ENOMEM;
    *held = (struct td_redact_held){.rec = *rec};
    if (rec->len)
        memcpy(held->data, rec->data, rec->len);
    held->rec.data = held->data;
    *s->tail = held;
    s->tail = &held->next;
    if (rec->dir == TD_WIRE_NOTE) {
        int64_t urls = td_redact_text((char *)held->data, rec->len),
                values = td_redact_members(h->values, (char *)held->data, rec->len, 2);

        h->counts.urls += urls;
        h->counts.values += values;
        held->rec.redacted = held->rec.redacted || urls || values;
        return TD_OK;
    }
    return add_side_bytes(h, s, &s->side[rec->dir == TD_WIRE_RECEIVED], held);
}

static bool reads_lines(enum td_redact_state state)
{
    return state == TD_RS_START || state == TD_RS_HEADERS || state == TD_RS_UNSYNCED || state == TD_RS_AMBIGUOUS || state == TD_RS_TRAILERS;
}

void td_redact_stream_end(struct td_redact_http *h, struct td_redact_stream *s)
{
    int i;

    for (i = 0; i < 2; i++) {
        struct td_redact_side *d = &s->side[i];

        if (reads_lines(d->state)) {
            if (d->unit.len) { /* a line that breaks off, maybe within a value */
                h->counts.values += td_redact_values_apply(h->values, d->unit.data, d->unit.len, true);
                redact_head_line(h, s, d);
            }
            d->state = TD_RS_START;
        } else {
            end_body(h, d, true);
        }
    }
}

int td_redact_stream_emit(struct td_redact_http *h, struct td_redact_stream *s, td_redact_emit *emit, void *ctx)
{
    int rc = TD_OK;

    (void)h;
    while (!rc && s->head && !s->head->open) {
        struct td_redact_held *held = s->head;

        rc = emit(ctx, &held->rec);
        s->head = held->next;
        if (!s->head)
            s->tail = &s->head;
        free(held);
    }
    return rc;
}
