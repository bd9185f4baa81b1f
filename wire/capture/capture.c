/* capture.c - the table of connections.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/capture.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/memory.h"
#include "common/out_of_memory.h"
#include "wire/capture/first_bytes.h"

enum { BUCKETS = 1 << 15, NOBODY = -1, FAR = 1 << 27, LOOK_AT_MEMORY = 4096 /* each so many packets */ };

/* Both ends, the smaller one first, so that both directions have one key. */
struct key { struct td_endpoint end[2]; };

struct connection;
struct side { struct connection *connection; int number; };

struct connection {
    struct connection *chain;             /* of the bucket */
    struct connection *newer, *older;     /* by their last segment */
    struct key key;
    struct td_reassembly dir[2];          /* what end[i] sends */
    struct side side[2];
    int client;                           /* which end; NOBODY: not known yet */
    struct td_conversation *conversation;
    struct td_capture *capture;
    int64_t last_ns;
    bool closed;                          /* by the server */
};

struct td_capture {
    struct td_capture_options opt;
    struct td_conversations all;
    struct td_capture_counts counts;
    struct connection *bucket[BUCKETS];
    struct connection *newest, *oldest;
    size_t n;
};

int td_capture_new(const struct td_capture_options *opt, struct td_capture **out, struct td_error *err)
{
    struct td_capture *c = calloc(1, sizeof *c);

    if (!c)
        return td_fail(err, TD_ENOMEM, "out of memory");
    c->opt = *opt;
    c->all = (struct td_conversations){.wants = opt->wants, .wants_arg = opt->wants_arg, .sink = opt->sink,
                                       .sink_arg = opt->sink_arg, .api = opt->api,
                                       .max_held_bytes = opt->max_held_bytes};
    c->all.kept = (struct td_kept_sink){.put = opt->sink, .arg = opt->sink_arg, .held_bytes = &c->all.held_bytes,
                                        .max_held_bytes = opt->max_held_bytes};
    c->counts.streams.max_held = opt->max_held_bytes;
    *out = c;
    return TD_OK;
}

void td_capture_set_phase(struct td_capture *c, const char *phase)
{
    c->all.phase = phase;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct connection **bucket_of(struct td_capture *c, const struct key *key)
{
    return &c->bucket[td_hash64(key, sizeof *key) % BUCKETS];
}

static void key_of(const struct td_segment *s, struct key *key)
{
    const bool swap = memcmp(&s->from, &s->to, sizeof s->from) > 0;

    memset(key, 0, sizeof *key);
    key->end[0] = swap ? s->to : s->from;
    key->end[1] = swap ? s->from : s->to;
}

/* Which end sends it? */
static int side_of(const struct key *key, const struct td_segment *s)
{
    return memcmp(&key->end[0], &s->from, sizeof s->from) == 0 ? 0 : 1;
}

static void unlink_age(struct td_capture *c, struct connection *k)
{
    *(k->newer ? &k->newer->older : &c->newest) = k->older;
    *(k->older ? &k->older->newer : &c->oldest) = k->newer;
}

static void link_newest(struct td_capture *c, struct connection *k)
{
    k->newer = NULL;
    k->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = k;
    c->newest = k;
}

static struct connection *find(struct td_capture *c, const struct key *key)
{
    struct connection *k = *bucket_of(c, key);

    while (k && memcmp(&k->key, key, sizeof *key) != 0)
        k = k->chain;
    return k;
}

/* ---- bytes in order -------------------------------------------------------------------------- */

static void pass_bytes(void *arg, const struct td_chunk *chunk)
{
    const struct side *side = arg;

    td_conversation_bytes(side->connection->conversation, side->number == side->connection->client, chunk);
}

static void pass_gap(void *arg, int64_t t_ns, uint32_t n, enum td_gap_cause cause)
{
    const struct side *side = arg;

    td_conversation_gap(side->connection->conversation, side->number == side->connection->client, t_ns, n, cause);
}

static struct td_reassembly_sink sink_of(struct connection *k, int side)
{
    return (struct td_reassembly_sink){&k->side[side], pass_bytes, pass_gap};
}

static void end_side(struct connection *k, int side)
{
    const struct td_reassembly_sink sink = sink_of(k, side);

    td_reassembly_end(&k->dir[side], &sink, &k->capture->counts.streams);
}

/* Nothing more comes of this connection. */
static void end_connection(struct connection *k, bool by_server, const char *why)
{
    struct td_capture *c = k->capture;
    struct connection **at;
    int i;

    end_side(k, k->client == 1); /* the requests before their answers */
    end_side(k, k->client != 1);
    td_conversation_end(k->conversation, k->last_ns, by_server, why);
    td_conversation_free(k->conversation);
    for (i = 0; i < 2; i++)
        td_reassembly_release(&k->dir[i], &c->counts.streams);
    for (at = bucket_of(c, &k->key); *at != k; at = &(*at)->chain)
        ;
    *at = k->chain;
    unlink_age(c, k);
    c->n--;
    free(k);
}

static struct connection *add(struct td_capture *c, const struct key *key, bool midway)
{
    struct connection *k = calloc(1, sizeof *k), **bucket = bucket_of(c, key);
    int i;

    if (!k) {
        td_out_of_memory_note();
        return NULL;
    }
    k->conversation = td_conversation_new(&c->all, td_hash64(key, sizeof *key), midway);
    if (!k->conversation) {
        free(k);
        return NULL;
    }
    if (c->n >= TD_CAPTURE_MAX_CONNECTIONS) {
        c->counts.dropped++;
        end_connection(c->oldest, false, "more connections were open than are followed");
    }
    k->capture = c;
    k->key = *key;
    k->client = NOBODY;
    for (i = 0; i < 2; i++)
        k->side[i] = (struct side){k, i};
    k->chain = *bucket;
    *bucket = k;
    link_newest(c, k);
    c->n++;
    c->counts.connections++;
    c->counts.midway += midway;
    return k;
}

/* ---- who is the server ----------------------------------------------------------------------- */

static bool is_any(const struct td_endpoint *e)
{
    static const uint8_t NONE[16];

    return memcmp(e->address, NONE, 16) == 0;
}

static bool is_server(const struct td_capture *c, const struct td_endpoint *e)
{
    const struct td_endpoint *server = &c->opt.server;

    return server->port && e->port == server->port &&
           (is_any(server) || memcmp(e->address, server->address, 16) == 0);
}

/* Which end asks? The user says so, or the one that opened the connection does, or its first bytes tell. */
static void find_client(struct connection *k, const struct td_segment *s, int from)
{
    const struct td_capture *c = k->capture;

    if (k->client != NOBODY)
        return;
    if (c->opt.server.port)
        k->client = is_server(c, &s->to) ? from : !from;
    else if (s->flags & TD_TCP_SYN)
        k->client = s->flags & TD_TCP_ACK ? !from : from;
    else if (s->len >= 7 && td_first_bytes_are(s->data, s->len, "HTTP/1."))
        k->client = !from;
    else if (s->len >= 5 && (td_first_bytes_are_request(s->data, s->len) || td_first_bytes_are_foreign(s->data, s->len)))
        k->client = from; /* of what is foreign it does not matter */
}

/* ---- a segment ------------------------------------------------------------------------------- */

#define OTHER_PORTS "the connection ended without a word, and another one took its ports"

/* SYN: the connection begins here, and one before it that had these ports is over. It may also be sent
 * again. NULL: no memory. */
static struct connection *open_connection(struct td_capture *c, struct connection *k, const struct key *key,
                                          const struct td_segment *s)
{
    const int from = side_of(key, s);

    if (k && k->dir[from].begun && k->dir[from].first != s->seq + 1) {
        end_connection(k, false, OTHER_PORTS);
        k = NULL;
    }
    if (!k)
        k = add(c, key, false);
    if (k && !k->dir[from].begun)
        td_reassembly_begin(&k->dir[from], s->seq + 1);
    return k;
}

/* Does this segment lie so far from what came before it that it is another connection's, whose beginning
 * was lost? Windows end at 2^30 bytes (RFC 7323, 2.3), and none is nearly so large in practice. */
static bool is_far(const struct td_reassembly *r, const struct td_segment *s)
{
    const int32_t distance = (int32_t)(s->seq - r->next);

    return r->begun && (s->wire_len || s->flags & TD_TCP_RST) && (distance > FAR || distance < -FAR);
}

/* RST: the connection is over; what was sent before it and did not come is a gap. */
static void reset_connection(struct connection *k, const struct td_segment *s, int from)
{
    const bool by_server = from != k->client && !k->dir[!from].has_end;

    if (k->dir[from].begun) {
        k->dir[from].has_end = true;
        k->dir[from].end = s->seq;
    }
    end_connection(k, by_server, from == k->client ? "the client reset the connection" : "the server reset the connection");
}

static void read_segment(struct connection *k, const struct td_segment *s, int from)
{
    struct td_capture *c = k->capture;
    const struct td_reassembly_sink mine = sink_of(k, from), others = sink_of(k, !from);

    /* first: an answer shows that the request before it was whole when it came */
    if (s->flags & TD_TCP_ACK)
        td_reassembly_acked(&k->dir[!from], s->ack, s->t_ns, s->len > 0, &others, &c->counts.streams);
    if (!k->dir[from].begun && s->wire_len) /* its SYN was not seen */
        td_conversation_late(k->conversation, from == k->client);
    td_reassembly_add(&k->dir[from], s, &mine, &c->counts.streams);
    if (from != k->client && !k->closed && td_reassembly_is_over(&k->dir[from])) {
        k->closed = true;
        td_conversation_server_closed(k->conversation, s->t_ns, k->dir[!from].has_end);
    }
}

/* The connection of a segment, which may begin here; SYN is taken off. NULL: there is none, and no memory or
 * no reason for one. */
static struct connection *connection_of(struct td_capture *c, struct td_segment *s)
{
    struct connection *k;
    struct key key;

    key_of(s, &key);
    k = find(c, &key);
    if (s->flags & TD_TCP_SYN) {
        k = open_connection(c, k, &key, s);
        s->seq++;
        return k;
    }
    if (k && is_far(&k->dir[side_of(&key, s)], s)) {
        if (s->flags & TD_TCP_RST) /* of a connection before it, or forged */
            return NULL;
        end_connection(k, false, OTHER_PORTS);
        k = NULL;
    }
    return !k && s->wire_len && !(s->flags & TD_TCP_RST) ? add(c, &key, true) : k;
}

static void take_segment(struct td_capture *c, struct td_segment *s)
{
    struct connection *k = connection_of(c, s);
    int from;

    if (!k) {
        c->counts.orphan_segments++;
        return;
    }
    from = side_of(&k->key, s);
    unlink_age(c, k);
    link_newest(c, k);
    k->last_ns = s->t_ns;
    if (s->flags & TD_TCP_RST) { /* what it carries is a message for people, if anything (RFC 9293, 3.5.3) */
        reset_connection(k, s, from);
        return;
    }
    c->counts.payload_bytes += s->len;
    c->counts.snapped_segments += s->len < s->wire_len;
    find_client(k, s, from);
    if (k->client == NOBODY) {
        c->counts.undecided_bytes += s->len;
        return;
    }
    read_segment(k, s, from);
    if (td_reassembly_is_over(&k->dir[0]) && td_reassembly_is_over(&k->dir[1]))
        end_connection(k, false, "the connection was closed");
}

void td_capture_packet(struct td_capture *c, int link, int64_t t_ns, const uint8_t *p, size_t captured, size_t wire)
{
    struct td_segment s;
    const enum td_packet_kind kind = td_packet_read(link, p, captured, wire, &s);

    c->counts.packets++;
    c->counts.packets_of[kind]++;
    if (kind != TD_PACKET_TCP)
        return;
    s.t_ns = t_ns;
    if (c->opt.server.port && !is_server(c, &s.from) && !is_server(c, &s.to))
        c->counts.other_segments++;
    else
        take_segment(c, &s);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void td_capture_drop_oldest(struct td_capture *c)
{
    size_t n = c->n / 4 + 1;

    for (; n && c->oldest; n--, c->counts.dropped++)
        end_connection(c->oldest, false, "no memory was left for its connection (--max-memory)");
}

/* Each connection takes little, and a capture may have very many. */
void td_capture_look_at_memory(struct td_capture *c)
{
    if (c->counts.packets % LOOK_AT_MEMORY == 0 && td_memory_left() < (uint64_t)td_memory_max() / 8)
        td_capture_drop_oldest(c);
}

/* ---- the end --------------------------------------------------------------------------------- */

void td_capture_end(struct td_capture *c)
{
    while (c->oldest)
        end_connection(c->oldest, false, "the capture ended before the answer did");
}

void td_capture_free(struct td_capture *c)
{
    if (!c)
        return;
    td_capture_end(c);
    free(c);
}

const struct td_capture_counts *td_capture_counts_of(struct td_capture *c)
{
    c->counts.http = c->all.counts;
    c->counts.answers = c->all.kept.counts;
    return &c->counts;
}

int64_t td_capture_in_flight(const struct td_capture *c)
{
    return c->all.in_flight;
}
