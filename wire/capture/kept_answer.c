/* kept_answer.c - records of one answer, its body uncompressed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/kept_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/out_of_memory.h"
#include "wire/stream_notes.h"

static void put(struct td_kept_answer *a, int64_t t_ns, enum td_wire_dir dir, const void *data, size_t n)
{
    const struct td_wire rec = {.t_ns = t_ns, .stream = a->stream, .dir = dir, .data = data, .len = n};

    a->sink->put(a->sink->arg, &rec);
}

/* Count the memory that it takes now. False: that is more than there is for all. */
static bool hold(struct td_kept_answer *a)
{
    const size_t now = a->head.len + a->n_pieces * sizeof *a->pieces + (a->uncompress ? td_uncompress_memory(a->uncompress) : 0);

    *a->sink->held_bytes += (int64_t)now - (int64_t)a->held;
    a->held = now;
    return *a->sink->held_bytes <= a->sink->max_held_bytes;
}

static void release_head(struct td_kept_answer *a)
{
    td_buf_release(&a->head);
    free(a->pieces);
    a->pieces = NULL;
    a->n_pieces = a->cap_pieces = 0;
}

static void release_all(struct td_kept_answer *a)
{
    release_head(a);
    td_uncompress_free(a->uncompress);
    a->uncompress = NULL;
    hold(a);
}

/* From here on nothing more of it is recorded. */
static void fail(struct td_kept_answer *a, const char *kind, int64_t *count, const char *why)
{
    ++*count;
    a->kind = kind;
    snprintf(a->why, sizeof a->why, "%s", why);
    a->mode = TD_KEPT_NOT;
    release_all(a);
}

static void fail_for_memory(struct td_kept_answer *a)
{
    fail(a, TD_ERROR_UNSEEN, &a->sink->counts.no_memory, "no memory was left to uncompress its answer (--max-memory)");
}

/* ---- the body -------------------------------------------------------------------------------- */

static void put_chunk(void *arg, const char *text, size_t n)
{
    struct td_kept_answer *a = arg;
    struct td_buf chunk = TD_BUF_INIT((size_t)1 << 20);

    td_buf_addf(&chunk, "%zx\r\n", n);
    td_buf_add(&chunk, text, n);
    td_buf_adds(&chunk, "\r\n"); /* what fails is counted (common/out_of_memory.h) */
    put(a, a->t_ns, TD_WIRE_RECEIVED, td_buf_str(&chunk), chunk.len);
    a->sink->counts.bytes_uncompressed += (int64_t)chunk.len;
    td_buf_release(&chunk);
}

static void uncompress(struct td_kept_answer *a, const char *bytes, size_t n)
{
    struct td_kept_counts *c = &a->sink->counts;
    const char *name = td_coding_name(td_coding_of(a->http.encoding));
    const int rc = td_uncompress_feed(a->uncompress, bytes, n, put_chunk, a);
    char why[sizeof a->why];

    if (rc == TD_EPROTO) {
        snprintf(why, sizeof why, "its answer is compressed (%s), and the bytes are damaged", name);
        fail(a, "parse", &c->damaged, why);
    } else if (rc == TD_ELIMIT) {
        snprintf(why, sizeof why, "its answer is compressed (%s), and stands for more than is read", name);
        fail(a, TD_ERROR_UNSEEN, &c->too_large, why);
    } else if (!hold(a) || rc) {
        fail_for_memory(a);
    }
}

static void take_body(void *arg, const char *bytes, size_t n)
{
    struct td_kept_answer *a = arg;

    if (a->mode == TD_KEPT_UNCOMPRESSED)
        uncompress(a, bytes, n);
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool is_framing(const char *line, size_t n)
{
    static const char *const NAMES[] = {"Content-Encoding", "Content-Length", "Transfer-Encoding"};
    size_t name = strcspn(line, ":\n"), i;

    while (name && (line[name - 1] == ' ' || line[name - 1] == '\t'))
        name--;
    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (name < n && strlen(NAMES[i]) == name && !strncasecmp(line, NAMES[i], name))
            return true;
    return false;
}

/* The head with the framing that the recorded body has. */
static void put_new_head(struct td_kept_answer *a)
{
    struct td_buf out = TD_BUF_INIT(2 * TD_KEPT_ANSWER_MAX_HEAD);
    const char *at = td_buf_str(&a->head), *end = at + a->head.len, *nl;
    bool left_out = false;

    for (; at < end && (nl = memchr(at, '\n', (size_t)(end - at))); at = nl + 1) {
        left_out = *at == ' ' || *at == '\t' ? left_out : is_framing(at, (size_t)(nl - at));
        if (!left_out && nl + 1 < end)
            td_buf_add(&out, at, (size_t)(nl + 1 - at));
    }
    td_buf_adds(&out, "Transfer-Encoding: chunked\r\n\r\n"); /* for the empty line, which is the last one */
    put(a, a->pieces[0].t_ns, TD_WIRE_RECEIVED, td_buf_str(&out), out.len);
    a->sink->counts.bytes_uncompressed += (int64_t)out.len;
    td_buf_release(&out);
}

static void put_old_head(struct td_kept_answer *a)
{
    size_t at = 0, i;

    for (i = 0; i < a->n_pieces; at += a->pieces[i++].len)
        put(a, a->pieces[i].t_ns, TD_WIRE_RECEIVED, a->head.data + at, a->pieces[i].len);
    a->put += (int64_t)a->head.len;
}

static void begin_uncompressed(struct td_kept_answer *a, enum td_coding coding)
{
    struct td_buf note = TD_BUF_INIT(1 << 10);
    const int rc = td_uncompress_new(coding, &a->uncompress);

    a->mode = TD_KEPT_UNCOMPRESSED;
    a->sink->counts.uncompressed++;
    td_uncompressed_note(&note, td_coding_name(coding));
    put(a, a->pieces[0].t_ns, TD_WIRE_NOTE, td_buf_str(&note), note.len);
    td_buf_release(&note);
    put_new_head(a);
    release_head(a);
    if (rc || !hold(a))
        fail_for_memory(a);
}

/* The head is there: how is the body recorded? */
static void end_head(struct td_kept_answer *a)
{
    const enum td_coding coding = td_coding_of(a->http.encoding);
    const bool has_body = a->http.state != TD_HTTP_DONE && a->http.state != TD_HTTP_BAD;

    if (coding != TD_CODING_NONE && has_body && td_coding_is_read(coding)) {
        begin_uncompressed(a, coding);
        return;
    }
    put_old_head(a);
    a->mode = TD_KEPT_AS_IT_IS;
    release_head(a);
    hold(a);
    if (coding != TD_CODING_NONE && has_body) {
        char why[sizeof a->why];

        snprintf(why, sizeof why, coding == TD_CODING_UNKNOWN ? "its answer is compressed with %s" : "its answer is compressed (%s), which this program was built without (make deps)",
                 td_coding_name(coding));
        fail(a, TD_ERROR_UNSEEN, &a->sink->counts.unknown, why);
    }
}

static bool is_in_head(const struct td_kept_answer *a)
{
    return a->http.state == TD_HTTP_START || a->http.state == TD_HTTP_HEADERS;
}

/* Keep a part of the head until it is whole. False: there is no room. */
static bool keep_head(struct td_kept_answer *a, int64_t t_ns, const uint8_t *bytes, size_t n)
{
    const bool more = !a->n_pieces || a->pieces[a->n_pieces - 1].t_ns != t_ns;
    int rc = more ? td_array_grow(&a->pieces, a->n_pieces, &a->cap_pieces, sizeof *a->pieces, 1 << 20) : TD_OK;

    if (rc == TD_ENOMEM)
        td_out_of_memory_note();
    if (rc || td_buf_add(&a->head, bytes, n))
        return false;
    if (more)
        a->pieces[a->n_pieces++] = (struct td_kept_piece){t_ns, 0};
    a->pieces[a->n_pieces - 1].len += n;
    return hold(a);
}

/* Read lines of the head. Returns how many bytes they are. */
static size_t feed_head(struct td_kept_answer *a, int64_t t_ns, const uint8_t *bytes, size_t n)
{
    const uint8_t *nl;
    size_t at = 0, len;

    while (at < n && is_in_head(a)) {
        nl = memchr(bytes + at, '\n', n - at);
        len = nl ? (size_t)(nl + 1 - (bytes + at)) : n - at;
        td_http_feed(&a->http, (const char *)bytes + at, len);
        if (a->mode == TD_KEPT_HEAD && !keep_head(a, t_ns, bytes + at, len))
            fail(a, TD_ERROR_UNSEEN, &a->sink->counts.no_memory, "the head of its answer is larger than what is kept in memory");
        at += len;
    }
    if (a->mode == TD_KEPT_HEAD && !is_in_head(a))
        end_head(a);
    return at;
}

/* ---- all ------------------------------------------------------------------------------------- */

void td_kept_answer_begin(struct td_kept_answer *a, struct td_kept_sink *sink, uint32_t stream, bool head, bool kept)
{
    *a = (struct td_kept_answer){.mode = kept ? TD_KEPT_HEAD : TD_KEPT_NOT, .kept = kept, .sink = sink, .stream = stream};
    td_http_init(&a->http, false, take_body, a);
    a->http.head = head;
    td_buf_init(&a->head, TD_KEPT_ANSWER_MAX_HEAD);
}

size_t td_kept_answer_feed(struct td_kept_answer *a, int64_t t_ns, const uint8_t *bytes, size_t n)
{
    size_t at = 0, used = 0;

    a->t_ns = t_ns;
    if (is_in_head(a))
        at = feed_head(a, t_ns, bytes, n);
    if (at < n && a->http.state != TD_HTTP_DONE) {
        td_http_feed(&a->http, (const char *)bytes + at, n - at);
        used = n - at - (size_t)a->http.excess;
        if (a->mode == TD_KEPT_AS_IT_IS && used) {
            put(a, t_ns, TD_WIRE_RECEIVED, bytes + at, used);
            a->put += (int64_t)used;
        }
    }
    a->came += (int64_t)(at + used);
    return at + used;
}

void td_kept_answer_end(struct td_kept_answer *a, int64_t t_ns, bool whole)
{
    static const char LAST[] = "0\r\n\r\n";

    if (a->mode == TD_KEPT_HEAD) /* as far as it came */
        put_old_head(a);
    if (a->mode == TD_KEPT_UNCOMPRESSED && whole && td_uncompress_is_whole(a->uncompress)) {
        put(a, t_ns, TD_WIRE_RECEIVED, LAST, sizeof LAST - 1);
        a->sink->counts.bytes_uncompressed += sizeof LAST - 1;
    } else if (a->mode == TD_KEPT_UNCOMPRESSED && whole) {
        fail(a, "cut", &a->sink->counts.damaged, "its answer is compressed, and ends before the compressed text does");
    }
    if (a->kept)
        a->sink->counts.bytes_replaced += a->came - a->put;
    release_all(a);
    td_http_release(&a->http);
}
