/* captured_keys.c - learn the secrets of captured requests.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/captured_keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/memory.h"
#include "format/redact.h"
#include "format/redact_words.h"
#include "wire/capture/packets.h"

#define A_SECRET "X-Api-Key" /* the name of a header that is one, for what is none */
#define FRAMING "Transfer-Encoding"
#define CODING "Content-Encoding"

struct body { bool chunked, compressed; }; /* of a request, as its headers have it */

struct td_captured_keys {
    struct td_redactor *redactor; /* knows which headers are secret */
    struct td_redact_values *values;
    int failed;                   /* td_captured_keys_read(): TD_ELIMIT, TD_ENOMEM */
};

int td_captured_keys_new(const struct td_redaction *rules, struct td_captured_keys **out, struct td_error *err)
{
    struct td_captured_keys *k = calloc(1, sizeof *k);
    int rc;

    if (!k)
        return td_fail(err, TD_ENOMEM, "out of memory");
    k->values = rules->values;
    rc = td_redactor_new(rules, &k->redactor, err);
    if (rc)
        td_captured_keys_free(k);
    else
        *out = k;
    return rc;
}

void td_captured_keys_free(struct td_captured_keys *k)
{
    if (!k)
        return;
    td_redactor_free(k->redactor);
    free(k);
}

/* ---- a request ------------------------------------------------------------------------------- */

/* A line, without its end, "\r\n" or "\n", as td_http reads it. False: it is not there as a whole. */
static bool next_line(const char **at, const char *end, const char **line, size_t *n)
{
    const char *nl = memchr(*at, '\n', (size_t)(end - *at));

    if (!nl)
        return false;
    *line = *at;
    *at = nl + 1;
    *n = (size_t)(nl - *line);
    *n -= *n && nl[-1] == '\r';
    return true;
}

static int learn(struct td_captured_keys *k, const char *name, size_t n_name, const char *value, size_t n, struct td_error *err)
{
    struct td_buf header = TD_BUF_INIT(2 * TD_CONVERSATION_MAX_REQUEST);
    int rc;

    td_buf_add(&header, name, n_name);
    td_buf_addc(&header, ':');
    td_buf_add(&header, value, n);
    rc = header.failed ? td_fail(err, TD_ENOMEM, "out of memory") : td_redact_values_learn(k->values, header.data, header.len, err);
    td_buf_release(&header);
    return rc;
}

/* Text of n bytes without the escapes of URLs. The caller frees. NULL: no memory.
 *   blanks : '+' is one, as in a query */
static char *unescape(const char *text, size_t n, bool blanks, size_t *len)
{
    char *out = malloc(n + 1), digits[3] = "";
    size_t i;

    *len = 0;
    if (!out)
        return NULL;
    for (i = 0; i < n; i++) {
        if (text[i] == '%' && i + 2 < n && isxdigit((unsigned char)text[i + 1]) && isxdigit((unsigned char)text[i + 2])) {
            memcpy(digits, text + i + 1, 2);
            out[(*len)++] = (char)strtol(digits, NULL, 16);
            i += 2;
        } else {
            out[(*len)++] = blanks && text[i] == '+' ? ' ' : text[i];
        }
    }
    return out;
}

/* A secret, and what it is without the escapes of URLs: "Bearer%20X" has a scheme, "%7B%22a%22%3A%22X%22%7D" is JSON.
 *   blanks : '+' is one */
static int learn_plain(struct td_captured_keys *k, const char *name, size_t n_name, const char *value, size_t n, bool blanks,
                       struct td_error *err)
{
    size_t len;
    char *plain = unescape(value, n, blanks, &len);
    int rc = plain ? learn(k, name, n_name, value, n, err) : td_fail(err, TD_ENOMEM, "out of memory");

    if (!rc && (len < n || memcmp(plain, value, n)))
        rc = learn(k, name, n_name, plain, len, err);
    free(plain);
    return rc;
}

typedef int64_t hide_fn(char *text, size_t n);

/* What redaction overwrites in a text, and nothing else. */
static int learn_hidden(struct td_captured_keys *k, const char *text, size_t n, hide_fn *hide, bool blanks, struct td_error *err)
{
    char *copy = malloc(n + 1);
    size_t i, len;
    int rc = TD_OK;

    if (!copy)
        return td_fail(err, TD_ENOMEM, "out of memory");
    memcpy(copy, text, n);
    if (!hide(copy, n))
        n = 0;
    for (i = 0; !rc && i < n; i += len) {
        for (len = 0; i + len < n && copy[i + len] == '*' && (len || text[i] != '*'); len++)
            ;
        if (len)
            rc = learn_plain(k, A_SECRET, strlen(A_SECRET), text + i, len, blanks, err);
        len += !len;
    }
    free(copy);
    return rc;
}

/* The secrets of a text that is none itself: parameters of URLs and their user:password@, "Bearer X", what stands
 * beside a secret's name, as in JSON. It may be escaped as URLs are.
 *   blanks : '+' is one */
static int learn_text(struct td_captured_keys *k, const char *text, size_t n, bool blanks, struct td_error *err)
{
    size_t len;
    char *plain = unescape(text, n, blanks, &len);
    int rc = plain ? learn_hidden(k, text, n, td_redact_text, blanks, err) : td_fail(err, TD_ENOMEM, "out of memory");

    if (!rc && (len < n || memcmp(plain, text, n)))
        rc = learn_hidden(k, plain, len, td_redact_text, blanks, err);
    free(plain);
    return rc;
}

/* The values of secret parameters in the line of a request, and what else is secret in its query. */
static int learn_line(struct td_captured_keys *k, const char *line, size_t n, struct td_error *err)
{
    const int rc = learn_hidden(k, line, n, td_redact_query, true, err);

    return rc ? rc : learn_text(k, line, n, true, err);
}

/* A header with its folded lines in one. */
static int learn_header(struct td_captured_keys *k, struct td_buf *header, struct body *body, struct td_error *err)
{
    const char *text = td_buf_str(header), *value = memchr(text, ':', header->len);
    size_t name = value ? (size_t)(value++ - text) : 0, n = header->len;
    int rc;

    while (n && text[n - 1] == '\r') /* more than the one of the line's end */
        n--;
    while (name && (text[name - 1] == ' ' || text[name - 1] == '\t'))
        name--;
    if (!name)
        return TD_OK;
    if (name == strlen(FRAMING) && !strncasecmp(text, FRAMING, name))
        body->chunked = body->chunked || strcasestr(value, "chunked");
    if (name == strlen(CODING) && !strncasecmp(text, CODING, name))
        body->compressed = body->compressed || strcasecmp(value + strspn(value, " \t"), "identity");
    n = n > (size_t)(value - text) ? n - (size_t)(value - text) : 0;
    rc = learn_text(k, value, n, false, err);
    return rc || !td_redactor_is_secret_header(k->redactor, text, name) ? rc : learn_plain(k, text, name, value, n, false, err);
}

/* Headers, or trailers, up to the empty line behind them. TD_ETRUNCATED: there is none. */
static int learn_headers(struct td_captured_keys *k, const char **at, const char *end, struct body *of, struct td_error *err)
{
    struct td_buf header = TD_BUF_INIT(TD_CONVERSATION_MAX_REQUEST);
    const char *line;
    size_t n;
    bool more, folded;
    int rc = TD_OK;

    do {
        more = next_line(at, end, &line, &n);
        folded = more && n && (*line == ' ' || *line == '\t');
        if (!folded) {
            rc = learn_header(k, &header, of, err);
            td_buf_clear(&header);
        }
        if (more && td_buf_add(&header, line, n) && !rc)
            rc = td_fail(err, TD_ENOMEM, "out of memory");
    } while (!rc && more && n);
    td_buf_release(&header);
    return rc || more ? rc : TD_ETRUNCATED;
}

/* Step over chunks, up to the trailers. TD_ETRUNCATED: they do not end here, or are none. */
static int skip_chunks(const char **at, const char *end)
{
    const char *line;
    size_t n, digits;
    unsigned long long size;

    while (next_line(at, end, &line, &n)) {
        digits = strspn(line, "0123456789abcdefABCDEF");
        size = strtoull(line, NULL, 16);
        if (!digits)
            return TD_ETRUNCATED;
        if (!size)
            return TD_OK;
        if (size >= (unsigned long long)(end - *at))
            return TD_ETRUNCATED;
        *at += size;
        if (!next_line(at, end, &line, &n) || n)
            return TD_ETRUNCATED;
    }
    return TD_ETRUNCATED;
}

int td_captured_keys_learn(struct td_captured_keys *k, const char *request, size_t n, struct td_error *err)
{
    const char *at = request, *end = request + n, *line;
    struct body body = {false, false};
    int rc;

    if (!next_line(&at, end, &line, &n))
        return TD_ETRUNCATED;
    rc = learn_line(k, line, n, err);
    if (!rc)
        rc = learn_headers(k, &at, end, &body, err);
    if (!rc && body.chunked)
        rc = skip_chunks(&at, end);
    if (!rc && body.chunked)
        rc = learn_headers(k, &at, end, &body, err);
    return rc || !body.compressed ? rc : TD_EUNSUPPORTED;
}

/* ---- a file ---------------------------------------------------------------------------------- */

static bool learn_only(void *arg, uint64_t connection, const char *method, const char *path, const char *whole, size_t n, size_t body,
                       struct td_conversation_name *name)
{
    struct td_captured_keys *k = arg;
    const int rc = k->failed ? TD_OK : td_captured_keys_learn(k, whole, n, NULL);

    (void)connection, (void)method, (void)path, (void)body, (void)name;
    if (rc && rc != TD_ETRUNCATED && rc != TD_EUNSUPPORTED)
        k->failed = rc;
    return false;
}

static void drop_record(void *arg, const struct td_wire *rec)
{
    (void)arg, (void)rec;
}

static int read_all(struct td_captured_keys *k, struct td_packets *packets, struct td_capture *capture,
                    const volatile sig_atomic_t *stop, struct td_error *err)
{
    struct td_error damaged = {0};
    struct td_packet p;
    int rc = 1;

    while (!*stop && !k->failed && (rc = td_packets_next(packets, &p, &damaged)) > 0) {
        td_capture_packet(capture, td_packets_link(packets), p.t_ns, p.data, p.captured, p.wire);
        td_capture_look_at_memory(capture);
    }
    td_capture_end(capture);
    return rc == TD_EIO && !*stop ? td_fail(err, rc, "%s", damaged.msg) : TD_OK; /* the recording says where it is damaged */
}

int td_captured_keys_read(struct td_captured_keys *k, const char *file, const struct td_endpoint *server, int64_t max_held_bytes,
                          const volatile sig_atomic_t *stop, struct td_error *err)
{
    const struct td_capture_options options = {.server = *server, .api = "", .wants = learn_only, .wants_arg = k, .sink = drop_record,
                                               .max_held_bytes = max_held_bytes};
    struct td_packets *packets = NULL;
    struct td_capture *capture = NULL;
    struct stat st;
    int rc;

    if (!strcmp(file, "-") || (!stat(file, &st) && !S_ISREG(st.st_mode)))
        return TD_OK;
    rc = td_packets_open_file(file, &packets, err);
    if (!rc)
        rc = td_capture_new(&options, &capture, err);
    if (!rc)
        rc = read_all(k, packets, capture, stop, err);
    td_capture_free(capture);
    td_packets_close(packets);
    return rc;
}
