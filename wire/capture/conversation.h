/* conversation.h - requests and answers of one HTTP/1.1 connection, as records of the wire log.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both directions come in as bytes in order, with gaps. Each request becomes a stream of its own, as
 * wire/client.h makes them: the note "open", what was sent, what was received, the note "close". Answers
 * come in the order of the requests (RFC 9112, 9.3.2), so several may wait for theirs.
 *
 * An exchange of which a part is missing is closed with the reason: as "cut" where the server broke off, else
 * as TD_ERROR_UNSEEN. Behind a loss, counting does not tell which answer is whose, and bytes of a body may
 * look like a message. TCP's numbers do tell. A client that waits for its answers had all earlier bytes of the
 * server when it asked: the request's ack is the number of the answer's first byte. And the server had the
 * whole request: the answer's ack is not before the request's end. Behind a loss, and where a direction begins
 * in the middle, only such a pair counts. None counts where requests did not wait for answers. */
#ifndef TD_WIRE_CAPTURE_CONVERSATION_H
#define TD_WIRE_CAPTURE_CONVERSATION_H

#include "format/records.h"
#include "wire/capture/kept_answer.h"
#include "wire/capture/reassembly.h"

#define TD_CONVERSATION_MAX_PENDING 256           /* requests of one connection that wait for answers */
#define TD_CONVERSATION_MAX_REQUEST ((size_t)64 << 20) /* bytes of a request, its head included */

struct td_conversation_counts {
    int64_t requests;             /* begun */
    int64_t other_requests;       /* of these: of paths that are not asked for, or left out by a limit */
    int64_t exchanges, not_whole;       /* emitted; of these, not whole */
    int64_t bytes_kept;           /* of exchanges, both directions */
    int64_t bytes_other;          /* of other requests and their answers */
    int64_t bytes_skipped;        /* that belong to no message that was seen from its beginning */
    int64_t bytes_no_http;        /* of connections that do not speak HTTP/1.1 */
    int64_t connections_tls, connections_http2, connections_other;
};

/* With these a prompt is found again: as the name and the repeat of a suite's. */
struct td_conversation_name { char prompt_id[64]; int32_t repeat; };

/* Is this request to be kept? Then fill in its name. Called once for each request, complete or as far as it came
 * (its head may be cut, and `body` is then n), before any of its bytes goes to the sink.
 *   connection   : by its two ends, the same in any capture of it; no number follows from another's
 *   method, path : as far as td_http keeps them
 *   whole        : [n], its bytes with a NUL behind; its body begins at `body` */
typedef bool td_conversation_wants_fn(void *arg, uint64_t connection, const char *method, const char *path, const char *whole,
                                      size_t n, size_t body, struct td_conversation_name *name);

/* What all conversations of a capture share. */
struct td_conversations {
    td_conversation_wants_fn *wants; void *wants_arg;
    void (*sink)(void *arg, const struct td_wire *rec); void *sink_arg;
    const char *api;              /* of the server, for the note */
    const char *phase;            /* of exchanges, for the note; NULL: "timed" */
    uint32_t next_stream;
    int64_t named;                /* connections with an exchange that is kept; they are numbered from 1 */
    int64_t in_flight;            /* exchanges that are open */
    int64_t held_bytes, max_held_bytes; /* of requests that are not complete yet, and of answers that are compressed */
    struct td_conversation_counts counts;
    struct td_kept_sink kept;     /* of their answers; its held_bytes are those above */
};

struct td_conversation;
/* NULL: out of memory.
 *   number : of the connection, for wants()
 *   midway : it began before the capture, so its first bytes are not where a message begins */
struct td_conversation *td_conversation_new(struct td_conversations *all, uint64_t number, bool midway);
void td_conversation_free(struct td_conversation *c);
void td_conversation_bytes(struct td_conversation *c, bool from_client, const struct td_chunk *chunk);
/* This direction begins in the middle: its first packets were lost, and maybe messages with them. Called before
 * its first bytes. */
void td_conversation_late(struct td_conversation *c, bool from_client);
/* n bytes of this direction are missing here. */
void td_conversation_gap(struct td_conversation *c, bool from_client, int64_t t_ns, uint32_t n, enum td_gap_cause cause);
/* The server closed its direction in order: that ends an answer without a length.
 *   client_left : the client had closed its own before, so what it lacks is not the server's fault */
void td_conversation_server_closed(struct td_conversation *c, int64_t t_ns, bool client_left);
/* Nothing more comes. Exchanges that are open are not whole.
 *   by_server : the server broke them off
 *   why : a sentence without a full stop, "the capture ended in mid-answer"; it must outlive the call */
void td_conversation_end(struct td_conversation *c, int64_t t_ns, bool by_server, const char *why);

#endif
