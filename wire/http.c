/* http.c - HTTP/1.1 messages in pieces (RFC 9112).
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/hidden.h"

void td_http_init(struct td_http *h, bool request, td_http_body_fn *fn, void *arg)
{
    *h = (struct td_http){.request = request, .content_length = -1, .fn = fn, .arg = arg};
    td_buf_init(&h->line, TD_HTTP_MAX_LINE);
}

void td_http_release(struct td_http *h)
{
    td_buf_release(&h->line);
}

static void set_bad(struct td_http *h, const char *what, const char *line)
{
    char shown[61];
    size_t i;

    h->state = TD_HTTP_BAD;
    td_hidden_cut(shown, sizeof shown, line, strlen(line));
    snprintf(h->bad, sizeof h->bad, "%s: \"%s\"", what, shown);
    for (i = 0; h->bad[i]; i++)
        if ((unsigned char)h->bad[i] < 0x20 || (unsigned char)h->bad[i] >= 0x7F)
            h->bad[i] = '?';
}

/* The end of a request line: "HTTP/1.1", and nothing behind it but blanks. A text about HTTP goes on. */
static bool is_version(const char *text)
{
    return !strncmp(text, "HTTP/1.", 7) && isdigit((unsigned char)text[7]) && text[8 + strspn(text + 8, " \t")] == '\0';
}

static void read_start_line(struct td_http *h, const char *line)
{
    const char *sp = strchr(line, ' '), *end;

    if (!*line)
        return; /* blank lines before a message are allowed */
    if (h->request) {
        end = sp ? strchr(sp + 1, ' ') : NULL;
        if (!sp || !end || !is_version(end + 1) || (size_t)(sp - line) >= sizeof h->method) {
            set_bad(h, "no HTTP/1.1 request line", line);
            return;
        }
        snprintf(h->method, sizeof h->method, "%.*s", (int)(sp - line), line);
        snprintf(h->path, sizeof h->path, "%.*s", (int)(end - sp - 1), sp + 1);
    } else {
        h->status = !strncmp(line, "HTTP/1.", 7) && sp ? atoi(sp + 1) : 0;
        if (h->status < 100 || h->status > 999) {
            h->status = 0;
            set_bad(h, "the answer is no HTTP/1.1", line);
            return;
        }
    }
    h->state = TD_HTTP_HEADERS;
}

static bool is_header(const char *line, const char *name, const char **value)
{
    size_t n = strlen(name);

    if (strncasecmp(line, name, n) || line[n] != ':')
        return false;
    for (*value = line + n + 1; **value == ' ' || **value == '\t';)
        ++*value;
    return true;
}

/* Read "42", or the same number several times: "42, 42". -1: it is something else. */
static int64_t read_length(const char *v)
{
    int64_t length = -1, one;
    int digits;

    do {
        v += strspn(v, " \t");
        for (one = digits = 0; isdigit((unsigned char)*v); v++, digits++)
            one = one < INT64_MAX / 100 ? one * 10 + (*v - '0') : INT64_MAX;
        v += strspn(v, " \t");
        if (!digits || (length >= 0 && one != length))
            return -1;
        length = one;
    } while (*v++ == ',');
    return v[-1] ? -1 : length;
}

static void read_content_length(struct td_http *h, const char *v, const char *line)
{
    const int64_t length = read_length(v);

    if (length < 0)
        set_bad(h, "Content-Length is no number", line);
    else if (h->content_length >= 0 && length != h->content_length)
        set_bad(h, "Content-Length is there twice, with another number", line);
    h->content_length = length;
}

/* Does the list of codings hold nothing but "chunked" and "identity"? */
static bool is_known_coding(const char *v)
{
    while (*v) {
        size_t n = strcspn(v, ", \t");

        if (n && !(n == 7 && !strncasecmp(v, "chunked", 7)) &&
            !(n == 8 && !strncasecmp(v, "identity", 8)))
            return false;
        v += n;
        v += strspn(v, ", \t");
    }
    return true;
}

static void read_coding(struct td_http *h, const char *v, const char *line)
{
    if (!is_known_coding(v))
        set_bad(h, "the body is coded in a way that was not asked for", line);
    h->chunked |= strcasestr(v, "chunked") != NULL;
}

static size_t trailing_blanks(const char *v)
{
    size_t n = strlen(v), end = n;

    while (end && (v[end - 1] == ' ' || v[end - 1] == '\t'))
        end--;
    return n - end;
}

/* Codings may stand in several headers; one that begins on the next line is none that is known. */
static void read_encoding(struct td_http *h, const char *v)
{
    if (*h->encoding || !*v)
        snprintf(h->encoding, sizeof h->encoding, "several");
    else
        td_hidden_cut(h->encoding, sizeof h->encoding, v, strlen(v) - trailing_blanks(v));
}

static void read_header(struct td_http *h, const char *line)
{
    const char *v;

    if (++h->n_headers > TD_HTTP_MAX_HEADERS) {
        set_bad(h, "too many headers", line);
    } else if (is_header(line, "Content-Length", &v)) {
        read_content_length(h, v, line);
    } else if (is_header(line, "Transfer-Encoding", &v)) {
        read_coding(h, v, line);
    } else if (is_header(line, "Content-Type", &v)) {
        td_hidden_cut(h->content_type, sizeof h->content_type, v, strlen(v));
    } else if (is_header(line, "Location", &v)) {
        td_hidden_cut(h->location, sizeof h->location, v, strlen(v));
    } else if (is_header(line, "Content-Encoding", &v)) {
        read_encoding(h, v);
    }
}

static void end_of_headers(struct td_http *h)
{
    if (!h->request && h->status < 200 && h->status != 101) { /* 100 Continue: the real answer follows */
        h->state = TD_HTTP_START;
        h->status = 0;
        h->content_length = -1;
        h->chunked = false;
        *h->encoding = '\0';
    } else if (!h->request && (h->head || td_http_is_bodiless(h->status))) {
        h->state = TD_HTTP_DONE;
    } else if (h->chunked) {
        h->state = TD_HTTP_CHUNK_SIZE;
    } else if (h->content_length >= 0 || h->request) {
        h->left = h->content_length > 0 ? h->content_length : 0;
        h->state = h->left ? TD_HTTP_BODY_LENGTH : TD_HTTP_DONE;
    } else {
        h->state = TD_HTTP_BODY_CLOSE;
    }
}

static void set_chunk_size(struct td_http *h, int64_t n)
{
    h->left = n;
    h->state = n ? TD_HTTP_CHUNK_DATA : TD_HTTP_TRAILERS;
}

static void read_chunk_size(struct td_http *h, const char *line)
{
    const size_t digits = strspn(line, "0123456789abcdefABCDEF");
    long long n = strtoll(line, NULL, 16);

    if (!digits || n < 0 || n > (1LL << 40) || (line[digits] && !strchr("; \t", line[digits])))
        set_bad(h, "the size of a chunk is no number", line);
    else
        set_chunk_size(h, n);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The lines between chunks as nearly all servers write them, where they are here as a whole: without a copy. Returns how many
 * bytes they are; 0: they are read as any line. */
static size_t read_plain_framing(struct td_http *h, const char *bytes, size_t n)
{
    enum { MOST_DIGITS = 8 };
    int64_t size = 0;
    size_t i;

    if (h->line.len || n < 2)
        return 0;
    if (h->state == TD_HTTP_CHUNK_END && bytes[0] == '\r' && bytes[1] == '\n') {
        h->state = TD_HTTP_CHUNK_SIZE;
        return 2;
    }
    if (h->state != TD_HTTP_CHUNK_SIZE)
        return 0;
    for (i = 0; i < n && i < MOST_DIGITS && hex_digit(bytes[i]) >= 0; i++)
        size = size * 16 + hex_digit(bytes[i]);
    if (!i || n - i < 2 || bytes[i] != '\r' || bytes[i + 1] != '\n')
        return 0;
    set_chunk_size(h, size);
    return i + 2;
}

static void read_message_line(struct td_http *h)
{
    size_t len = h->line.len;
    const char *line;

    if (h->line.failed) {
        set_bad(h,
                h->state == TD_HTTP_CHUNK_SIZE ? "the line of a chunk's size is longer than 64 KiB"
                : h->state == TD_HTTP_TRAILERS ? "a trailer is longer than 64 KiB"
                                               : "a header line is longer than 64 KiB",
                td_buf_str(&h->line));
        return;
    }
    if (len && h->line.data[len - 1] == '\r')
        h->line.data[len - 1] = '\0';
    line = td_buf_str(&h->line);
    if (h->state == TD_HTTP_START)
        read_start_line(h, line);
    else if (h->state == TD_HTTP_HEADERS)
        *line ? read_header(h, line) : end_of_headers(h);
    else if (h->state == TD_HTTP_CHUNK_SIZE)
        read_chunk_size(h, line);
    else if (h->state == TD_HTTP_CHUNK_END)
        *line ? set_bad(h, "a chunk does not end where it should", line) : (void)(h->state = TD_HTTP_CHUNK_SIZE);
    else if (h->state == TD_HTTP_TRAILERS && !*line)
        h->state = TD_HTTP_DONE;
    td_buf_clear(&h->line);
}

static size_t pass_body(struct td_http *h, const char *bytes, size_t n)
{
    if (h->state != TD_HTTP_BODY_CLOSE) {
        if ((int64_t)n > h->left)
            n = (size_t)h->left;
        h->left -= (int64_t)n;
        if (!h->left)
            h->state = h->state == TD_HTTP_CHUNK_DATA ? TD_HTTP_CHUNK_END : TD_HTTP_DONE;
    }
    h->fn(h->arg, bytes, n);
    return n;
}

void td_http_feed(struct td_http *h, const char *bytes, size_t n)
{
    size_t i = 0, k;
    const char *nl;

    while (i < n && h->state != TD_HTTP_BAD) {
        switch (h->state) {
        case TD_HTTP_BODY_LENGTH:
        case TD_HTTP_BODY_CLOSE:
        case TD_HTTP_CHUNK_DATA:
            i += pass_body(h, bytes + i, n - i);
            break;
        case TD_HTTP_DONE:
            h->excess += (int64_t)(n - i);
            return;
        default:
            k = read_plain_framing(h, bytes + i, n - i);
            i += k;
            if (k)
                break;
            nl = memchr(bytes + i, '\n', n - i);
            k = nl ? (size_t)(nl - bytes) - i : n - i;
            td_buf_add(&h->line, bytes + i, k);
            i += k + (nl != NULL);
            if (nl || h->line.failed)
                read_message_line(h);
        }
    }
}

bool td_http_is_bodiless(int status)
{
    return status == 101 || status == 204 || status == 205 || status == 304;
}

bool td_http_complete(const struct td_http *h, bool closed)
{
    return h->state == TD_HTTP_DONE || (closed && h->state == TD_HTTP_BODY_CLOSE);
}
