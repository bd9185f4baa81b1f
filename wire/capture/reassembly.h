/* reassembly.h - put the bytes of one direction of a TCP connection in order.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments may come out of order, twice, overlapping, or not at all. Bytes are handed on in order, with
 * the time at which they and all before them were there: the receiver could read them then. Missing bytes
 * are a hole while they may still come, and a gap once the capture has lost them: where the receiver
 * acknowledged them a while ago, where too much waits behind the hole, or at the end. Where segments
 * disagree about a byte, what was handed on counts; else the segment with the lower number; else the one
 * that came first. */
#ifndef TD_WIRE_CAPTURE_REASSEMBLY_H
#define TD_WIRE_CAPTURE_REASSEMBLY_H

#include "wire/capture/packet.h"

#define TD_REASSEMBLY_MAX_HELD ((size_t)8 << 20)   /* bytes that wait behind a hole, and */
#define TD_REASSEMBLY_MAX_SEGMENTS 8192            /* the segments that they are */
#define TD_REASSEMBLY_PATIENCE_NS 200000000        /* a hole whose bytes were acknowledged, in the capture's time */

enum td_gap_cause { TD_GAP_LOST, TD_GAP_SNAP };

struct td_reassembly_counts {     /* of all connections */
    int64_t bytes;                /* handed on */
    int64_t repeated;             /* bytes that were there already */
    int64_t differing;            /* segments that disagree with others that wait; those handed on are not kept */
    int64_t lost, snapped;        /* bytes of gaps, by cause */
    int64_t no_room;              /* of lost: bytes that came, and found no memory */
    int64_t held, max_held;       /* bytes of memory that wait now; the most that may */
};

/* Bytes in order. */
struct td_chunk {
    int64_t t_ns;
    const uint8_t *data; size_t n;
    uint32_t seq;                 /* sequence number of the first */
    uint32_t ack;                 /* what the sender had of the other direction when it sent them */
};

struct td_reassembly_sink {
    void *arg;
    void (*bytes)(void *arg, const struct td_chunk *chunk);
    void (*gap)(void *arg, int64_t t_ns, uint32_t n, enum td_gap_cause cause);
};

struct td_reassembly {            /* zeroed: nothing has come */
    bool begun;
    uint32_t first, next;         /* sequence numbers of the first byte, and of the next one */
    uint32_t acked; bool has_ack; /* by the receiver */
    bool has_end; uint32_t end;   /* sequence number of FIN */
    int64_t last_ns;              /* of what was handed on last */
    struct td_held *held;         /* by sequence number */
    size_t held_bytes, n_held;
};

/* A connection is opened: its first byte has the number behind that of SYN. Nothing came before. */
void td_reassembly_begin(struct td_reassembly *r, uint32_t first);
/* A segment. Without td_reassembly_begin() the first one that has data begins. */
void td_reassembly_add(struct td_reassembly *r, const struct td_segment *s, const struct td_reassembly_sink *sink,
                       struct td_reassembly_counts *counts);
/* The receiver acknowledged all bytes before `ack`.
 *   answers : it sent data with that, so it had them before: those that did not come are lost */
void td_reassembly_acked(struct td_reassembly *r, uint32_t ack, int64_t t_ns, bool answers,
                         const struct td_reassembly_sink *sink, struct td_reassembly_counts *counts);
/* Nothing more comes: holes are gaps. */
void td_reassembly_end(struct td_reassembly *r, const struct td_reassembly_sink *sink,
                       struct td_reassembly_counts *counts);
/* Did the sender end its direction, and is all before that handed on? */
bool td_reassembly_is_over(const struct td_reassembly *r);
void td_reassembly_release(struct td_reassembly *r, struct td_reassembly_counts *counts);

#endif
