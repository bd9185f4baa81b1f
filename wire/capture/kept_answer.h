/* kept_answer.h - one answer of a server: where it ends, and its records of the wire log.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An answer is recorded as it came, piece by piece. One that the server compressed is not, for in compressed bytes no
 * key can be searched for. Its body is recorded as the text that it stands for, in chunks, each with the time of the
 * packet that completed it. A note before it says so (wire/stream_notes.h), and "Transfer-Encoding: chunked" stands in
 * place of the headers Content-Encoding, Content-Length and Transfer-Encoding. So the head waits until it is there as a
 * whole. */
#ifndef TD_WIRE_CAPTURE_KEPT_ANSWER_H
#define TD_WIRE_CAPTURE_KEPT_ANSWER_H

#include "format/records.h"
#include "wire/http.h"
#include "wire/uncompress.h"

#define TD_KEPT_ANSWER_MAX_HEAD ((size_t)1 << 20)

struct td_kept_counts {           /* of all answers */
    int64_t uncompressed;         /* answers, and the bytes that were recorded for them; */
    int64_t bytes_uncompressed;
    int64_t bytes_replaced;       /* bytes that came, and were not recorded as they are */
    int64_t too_large, no_memory, unknown, damaged; /* answers that are not whole, and why */
};

/* What all answers share. */
struct td_kept_sink {
    void (*put)(void *arg, const struct td_wire *rec); void *arg;
    int64_t *held_bytes, max_held_bytes; /* memory of heads that wait, and of decoders */
    struct td_kept_counts counts;
};

/* A part of a message, as it came. */
struct td_kept_piece { int64_t t_ns; size_t len; };

enum td_kept_mode {
    TD_KEPT_NOT,                  /* nothing is recorded */
    TD_KEPT_HEAD,                 /* its head comes in */
    TD_KEPT_AS_IT_IS,
    TD_KEPT_UNCOMPRESSED
};

struct td_kept_answer {
    struct td_http http;
    enum td_kept_mode mode;
    struct td_kept_sink *sink;
    uint32_t stream;
    bool kept;
    int64_t t_ns;                 /* of the bytes that are read */
    int64_t came, put;            /* bytes; of them, recorded as they are */
    struct td_buf head;
    struct td_kept_piece *pieces; size_t n_pieces, cap_pieces;
    struct td_uncompress *uncompress; size_t held; /* what it counts in sink->held_bytes, and the head does */
    const char *kind; char why[120]; /* why it is not whole, besides losses; kind NULL: it is */
};

/*   head : the request was HEAD, so there is no body
 *   kept : its records go to the sink, as `stream` */
void td_kept_answer_begin(struct td_kept_answer *a, struct td_kept_sink *sink, uint32_t stream, bool head, bool kept);
/* Read n bytes. Returns how many of them belong to it; a->http.state says whether it is over. */
size_t td_kept_answer_feed(struct td_kept_answer *a, int64_t t_ns, const uint8_t *bytes, size_t n);
/* No more comes of it.
 *   whole : as far as HTTP tells; a->kind says what else there is */
void td_kept_answer_end(struct td_kept_answer *a, int64_t t_ns, bool whole);

#endif
