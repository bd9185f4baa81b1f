/* conversation.c - requests and answers of one connection.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/out_of_memory.h"
#include "wire/capture/first_bytes.h"
#include "wire/http.h"
#include "wire/stream_notes.h"

#define UNSEEN TD_ERROR_UNSEEN

/* A part of a request, as it came. */
struct piece { int64_t t_ns; size_t len; };

struct pending {                  /* a request that waits for its answer, or for the end of it */
    struct pending *next;
    uint32_t stream;
    bool kept, head;              /* head: its answer has no body */
    uint32_t ack, end;            /* of the server's bytes when it began; the number behind its own last byte */
    const char *spoiled;          /* why it is unseen whatever its answer is; NULL: it is not */
};

struct td_conversation {
    struct td_conversations *all;
    uint64_t number;
    int64_t name;                 /* its number in the notes; 0: none of its requests was kept yet */
    bool no_http;                 /* it speaks something else */
    bool begun;                   /* a message was read */
    bool seeks_request;           /* skip until a request begins */
    bool by_numbers;              /* bytes were lost: only numbers tell which answer is whose, */
    bool pipelined;               /* and not even these where requests did not wait for answers */
    bool forgot_requests;         /* requests were forgotten: nothing tells */
    bool request_may_be_lost, answered_known; /* a request may be lost, and the server had sent all before answered_to */
    uint32_t answered_to;
    bool has_server; uint32_t server_next; /* behind what came of the server last */
    /* the request that comes in */
    bool in_request;
    struct td_http request;
    struct td_buf whole;
    uint32_t request_ack, request_end; /* as in struct pending */
    const char *request_spoiled;
    struct piece *pieces; size_t n_pieces, cap_pieces;
    /* those that wait */
    struct pending *first_pending, *last_pending;
    size_t n_pending;
    /* the answer to the first of them */
    bool in_answer;
    struct td_kept_answer answer;
};

static void no_body(void *arg, const char *bytes, size_t n)
{
    (void)arg, (void)bytes, (void)n;
}

/* ---- records --------------------------------------------------------------------------------- */

static void put(struct td_conversations *all, uint32_t stream, int64_t t_ns, enum td_wire_dir dir,
                const void *data, size_t n)
{
    const struct td_wire rec = {.t_ns = t_ns, .stream = stream, .dir = dir, .data = data, .len = n};

    all->sink(all->sink_arg, &rec);
}

static void put_note(struct td_conversations *all, uint32_t stream, int64_t t_ns, struct td_buf *b)
{
    put(all, stream, t_ns, TD_WIRE_NOTE, td_buf_str(b), b->len);
    td_buf_release(b);
}

static void note_open(struct td_conversation *c, uint32_t stream, int64_t t_ns, const struct td_http *request,
                      const struct td_conversation_name *name)
{
    struct td_conversations *all = c->all;
    const struct td_open_note note = {.prompt_id = name->prompt_id, .category = "captured",
                                      .phase = all->phase ? all->phase : "timed", .api = all->api,
                                      .method = request->method, .path = request->path, .repeat = name->repeat,
                                      .concurrency = all->in_flight, .connection = c->name ? c->name : ++all->named};
    struct td_buf b = TD_BUF_INIT(1 << 16);

    c->name = note.connection;
    td_open_note(&b, &note);
    put_note(all, stream, t_ns, &b);
}

static void note_close(struct td_conversations *all, uint32_t stream, int64_t t_ns, const char *kind, const char *why)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);

    td_close_note(&b, kind, why);
    put_note(all, stream, t_ns, &b);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* The first request that waits is done with. kind NULL: its answer is whole. */
static void close_first(struct td_conversation *c, int64_t t_ns, const char *kind, const char *why)
{
    struct pending *p = c->first_pending;

    if (c->in_answer)
        td_kept_answer_end(&c->answer, t_ns, !kind);
    if (c->in_answer && c->answer.kind) {
        kind = c->answer.kind;
        why = c->answer.why;
    }
    c->in_answer = false;
    if (p->spoiled) {
        kind = UNSEEN;
        why = p->spoiled;
    }
    if (p->kept) {
        note_close(c->all, p->stream, t_ns, kind, why);
        c->all->counts.not_whole += kind != NULL;
        c->all->in_flight--;
    }
    c->first_pending = p->next;
    c->last_pending = c->first_pending ? c->last_pending : NULL;
    c->n_pending--;
    free(p);
}

static void close_all(struct td_conversation *c, int64_t t_ns, const char *kind, const char *why)
{
    while (c->first_pending)
        close_first(c, t_ns, kind, why);
}

static void forget_request(struct td_conversation *c)
{
    if (c->in_request)
        td_http_release(&c->request);
    c->in_request = false;
    c->all->held_bytes -= (int64_t)(c->whole.len + c->n_pieces * sizeof *c->pieces);
    td_buf_release(&c->whole);
    free(c->pieces);
    c->pieces = NULL;
    c->n_pieces = c->cap_pieces = 0;
}

/* Where the body of a whole request begins. */
static size_t body_of(const struct td_buf *whole)
{
    const char *end = memmem(td_buf_str(whole), whole->len, "\r\n\r\n", 4), *bare;

    if (end)
        return (size_t)(end + 4 - whole->data);
    bare = memmem(td_buf_str(whole), whole->len, "\n\n", 2);
    return bare ? (size_t)(bare + 2 - whole->data) : whole->len;
}

/* Write down what was sent, with the times at which it went by. */
static void put_request(struct td_conversation *c, struct pending *p, const struct td_conversation_name *name)
{
    size_t at = 0, i;

    p->stream = c->all->next_stream++;
    c->all->in_flight++;
    c->all->counts.exchanges++;
    c->all->counts.bytes_kept += (int64_t)c->whole.len;
    note_open(c, p->stream, c->pieces[0].t_ns, &c->request, name);
    for (i = 0; i < c->n_pieces; at += c->pieces[i++].len)
        put(c->all, p->stream, c->pieces[i].t_ns, TD_WIRE_SENT, c->whole.data + at, c->pieces[i].len);
}

/* The request is complete, or as complete as it gets: it waits for its answer from now on.
 *   spoiled : why it is not whole; NULL: it is */
static void end_request(struct td_conversation *c, int64_t t_ns, const char *spoiled)
{
    struct td_conversations *all = c->all;
    struct pending *p = calloc(1, sizeof *p);
    struct td_conversation_name name = {"", 0};

    if (!p) {
        td_out_of_memory_note();
        all->counts.bytes_skipped += (int64_t)c->whole.len;
        forget_request(c);
        close_all(c, t_ns, UNSEEN, "no memory was left for its connection");
        c->seeks_request = c->forgot_requests = true;
        return;
    }
    c->pipelined |= c->first_pending && (c->in_answer || c->last_pending->ack == c->request_ack);
    if (!spoiled)
        spoiled = c->forgot_requests ? "requests before it on its connection were forgotten" : c->request_spoiled;
    *p = (struct pending){.head = strcmp(c->request.method, "HEAD") == 0, .spoiled = spoiled, .ack = c->request_ack,
                          .end = c->request_end};
    p->kept = c->n_pieces && all->wants(all->wants_arg, c->number, c->request.method, c->request.path, td_buf_str(&c->whole),
                                        c->whole.len, body_of(&c->whole), &name);
    if (p->kept) {
        put_request(c, p, &name);
    } else {
        all->counts.other_requests++;
        all->counts.bytes_other += (int64_t)c->whole.len;
    }
    *(c->last_pending ? &c->last_pending->next : &c->first_pending) = p;
    c->last_pending = p;
    forget_request(c);
    if (++c->n_pending > TD_CONVERSATION_MAX_PENDING) {
        close_all(c, t_ns, UNSEEN, "too many requests waited for answers on its connection");
        c->forgot_requests = true;
    }
}

/* ---- another protocol ------------------------------------------------------------------------ */

/* A connection on which nothing was read so far speaks no HTTP/1.1. */
static void classify_foreign(struct td_conversation *c, const uint8_t *data, size_t n)
{
    struct td_conversation_counts *counts = &c->all->counts;

    c->no_http = true;
    if (td_first_bytes_are_tls(data, n))
        counts->connections_tls++;
    else if (td_first_bytes_are_http2(data, n))
        counts->connections_http2++;
    else
        counts->connections_other++;
}

/* ---- the client's bytes ---------------------------------------------------------------------- */

/* Does a request begin here? Else its bytes are counted. */
static bool begin_request(struct td_conversation *c, const struct td_chunk *k)
{
    if (!td_first_bytes_are_request(k->data, k->n)) {
        if (!c->begun && !c->seeks_request)
            classify_foreign(c, k->data, k->n);
        c->seeks_request = true;
        *(c->no_http ? &c->all->counts.bytes_no_http : &c->all->counts.bytes_skipped) += (int64_t)k->n;
        return false;
    }
    td_http_init(&c->request, true, no_body, NULL);
    td_buf_init(&c->whole, TD_CONVERSATION_MAX_REQUEST);
    c->in_request = c->begun = true;
    c->seeks_request = false;
    c->request_ack = k->ack;
    c->request_spoiled = NULL;
    if (c->request_may_be_lost && c->answered_known && (int32_t)(k->ack - c->answered_to) > 0)
        c->request_may_be_lost = false; /* what was lost has been answered since */
    else if (c->request_may_be_lost)
        c->request_spoiled = "a request before it on its connection may be lost";
    c->all->counts.requests++;
    return true;
}

/* Keep bytes of a request until it is complete. False: there is no room. */
static bool hold_piece(struct td_conversation *c, int64_t t_ns, const uint8_t *data, size_t n)
{
    const int64_t more = (int64_t)(n + sizeof *c->pieces);
    int rc;

    if (c->all->held_bytes + more > c->all->max_held_bytes)
        return false;
    rc = td_array_grow(&c->pieces, c->n_pieces, &c->cap_pieces, sizeof *c->pieces, 1 << 20);
    if (rc == TD_ENOMEM)
        td_out_of_memory_note();
    if (rc || td_buf_add(&c->whole, data, n))
        return false;
    c->pieces[c->n_pieces++] = (struct piece){t_ns, n};
    c->all->held_bytes += more;
    return true;
}

/* Read a part of a request. Returns how many of the bytes belong to it. */
static size_t read_request(struct td_conversation *c, const struct td_chunk *k)
{
    size_t used;

    td_http_feed(&c->request, (const char *)k->data, k->n);
    used = k->n - (size_t)c->request.excess;
    c->request_end = k->seq + (uint32_t)used;
    if (!hold_piece(c, k->t_ns, k->data, used)) {
        c->all->counts.bytes_skipped += (int64_t)used;
        end_request(c, k->t_ns, "its request is larger than what is kept in memory (--max-memory)");
        c->seeks_request = c->by_numbers = true;
    } else if (c->request.state == TD_HTTP_BAD) {
        end_request(c, k->t_ns, "its request is no HTTP/1.1");
        c->seeks_request = c->by_numbers = true;
    } else if (c->request.state == TD_HTTP_DONE) {
        end_request(c, k->t_ns, NULL);
    }
    return used;
}

static void step(struct td_chunk *k, size_t used)
{
    k->data += used;
    k->n -= used;
    k->seq += (uint32_t)used;
}

static void read_client(struct td_conversation *c, struct td_chunk k)
{
    while (k.n && !c->in_request && (*k.data == '\r' || *k.data == '\n')) { /* allowed between requests */
        c->all->counts.bytes_other++;
        step(&k, 1);
    }
    while (k.n && (c->in_request || begin_request(c, &k)))
        step(&k, read_request(c, &k));
}

/* ---- the server's bytes ---------------------------------------------------------------------- */

/* Bytes of the server that belong to no message. */
static void skip_bytes(struct td_conversation *c, const struct td_chunk *k)
{
    c->by_numbers = true;
    c->all->counts.bytes_skipped += (int64_t)k->n;
}

/* An interim answer ("100 Continue") to a request that is not complete. Returns its length; 0: it is none, or
 * not here as a whole. */
static size_t interim(const struct td_chunk *k)
{
    const char *end = memmem(k->data, k->n, "\r\n\r\n", 4);

    return k->n >= 10 && td_first_bytes_are(k->data, k->n, "HTTP/1.") && k->data[9] == '1' && end ? (size_t)(end + 4 - (const char *)k->data) : 0;
}

/* Do TCP's numbers show that the answer which begins here is this request's? */
static bool is_answer_to(const struct pending *p, const struct td_chunk *k)
{
    return p->ack == k->seq && (int32_t)(k->ack - p->end) >= 0;
}

/* Does the answer to the first that waits begin here? Else the bytes are counted. */
static bool begin_answer(struct td_conversation *c, const struct td_chunk *k)
{
    if (!td_first_bytes_are(k->data, k->n, "HTTP/1.")) {
        skip_bytes(c, k);
        return false;
    }
    if (!c->first_pending && c->in_request) {
        end_request(c, k->t_ns, "its answer began before it was complete");
        c->seeks_request = c->by_numbers = true;
    }
    while (c->by_numbers && c->first_pending && (c->pipelined || !is_answer_to(c->first_pending, k)))
        close_first(c, k->t_ns, UNSEEN, "the capture lost bytes of its connection, and its answer is not known");
    if (!c->first_pending) {
        skip_bytes(c, k);
        return false;
    }
    td_kept_answer_begin(&c->answer, &c->all->kept, c->first_pending->stream, c->first_pending->head, c->first_pending->kept);
    c->in_answer = c->begun = true;
    return true;
}

/* Read a part of an answer. Returns how many of the bytes belong to it. */
static size_t read_answer(struct td_conversation *c, const struct td_chunk *k)
{
    const bool kept = c->first_pending->kept;
    const size_t used = td_kept_answer_feed(&c->answer, k->t_ns, k->data, k->n);

    *(kept ? &c->all->counts.bytes_kept : &c->all->counts.bytes_other) += (int64_t)used;
    if (c->answer.http.state == TD_HTTP_BAD) {
        close_first(c, k->t_ns, "parse", c->answer.http.bad);
        c->by_numbers = true;
    } else if (c->answer.http.state == TD_HTTP_DONE) {
        close_first(c, k->t_ns, NULL, NULL);
    }
    return used;
}

static void read_server(struct td_conversation *c, struct td_chunk k)
{
    size_t n;

    if (c->request_may_be_lost && !c->answered_known)
        c->answered_to = k.seq;
    c->answered_known |= c->request_may_be_lost;
    c->has_server = true;
    c->server_next = k.seq + (uint32_t)k.n;
    while (k.n) {
        n = !c->in_answer && !c->first_pending && c->in_request ? interim(&k) : 0;
        if (n) {
            c->all->counts.bytes_other += (int64_t)n;
            step(&k, n);
        } else if (c->in_answer || begin_answer(c, &k)) {
            step(&k, read_answer(c, &k));
        } else {
            return;
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

struct td_conversation *td_conversation_new(struct td_conversations *all, uint64_t number, bool midway)
{
    struct td_conversation *c = calloc(1, sizeof *c);

    if (c) {
        c->all = all;
        c->number = number;
        c->seeks_request = c->by_numbers = midway;
    } else {
        td_out_of_memory_note();
    }
    return c;
}

void td_conversation_free(struct td_conversation *c)
{
    if (!c)
        return;
    td_conversation_end(c, 0, false, "its connection was dropped");
    free(c->pieces);
    free(c);
}

void td_conversation_bytes(struct td_conversation *c, bool from_client, const struct td_chunk *chunk)
{
    if (!c->no_http && !c->begun && td_first_bytes_are_foreign(chunk->data, chunk->n))
        classify_foreign(c, chunk->data, chunk->n);
    if (c->no_http)
        c->all->counts.bytes_no_http += (int64_t)chunk->n;
    else if (from_client)
        read_client(c, *chunk);
    else
        read_server(c, *chunk);
}

void td_conversation_late(struct td_conversation *c, bool from_client)
{
    c->by_numbers = true;
    if (from_client)
        c->seeks_request = true;
}

void td_conversation_gap(struct td_conversation *c, bool from_client, int64_t t_ns, uint32_t n, enum td_gap_cause cause)
{
    const char *what = cause == TD_GAP_SNAP ? "cut by the capture's snap length (tcpdump -s 0)" : "lost by the capture";
    char why[160];

    c->by_numbers = true;
    if (from_client) {
        c->seeks_request = c->request_may_be_lost = true;
        c->answered_known = c->has_server;
        c->answered_to = c->server_next;
        if (c->in_request)
            end_request(c, t_ns, cause == TD_GAP_SNAP ? "its request was cut by the capture's snap length (tcpdump -s 0)"
                                                      : "a part of its request was lost by the capture");
        return;
    }
    snprintf(why, sizeof why, "a part of its answer was %s", what);
    c->server_next += n;
    if (c->in_answer)
        close_first(c, t_ns, UNSEEN, why);
}

/* The server is done. It broke off what it owes, unless the client left first, or the capture may have lost the
 * answer. */
static void close_owed(struct td_conversation *c, int64_t t_ns, bool client_left, const char *why)
{
    if (client_left)
        close_all(c, t_ns, UNSEEN, "the client closed the connection before its answer was whole");
    if (c->in_answer) /* it began here, and its numbers fit */
        close_first(c, t_ns, "cut", why);
    if (c->by_numbers)
        close_all(c, t_ns, UNSEEN, "the capture lost bytes of its connection, and its answer is not known");
    close_all(c, t_ns, "cut", why);
}

void td_conversation_server_closed(struct td_conversation *c, int64_t t_ns, bool client_left)
{
    const char *why = c->in_answer ? "the server closed the connection in mid-answer"
                                   : "the server closed the connection without an answer";

    if (c->in_answer && !client_left && td_http_complete(&c->answer.http, true))
        close_first(c, t_ns, NULL, NULL);
    close_owed(c, t_ns, client_left, why);
}

void td_conversation_end(struct td_conversation *c, int64_t t_ns, bool by_server, const char *why)
{
    if (c->in_request)
        end_request(c, t_ns, why);
    if (by_server)
        close_owed(c, t_ns, false, why);
    else
        close_all(c, t_ns, UNSEEN, why);
}
