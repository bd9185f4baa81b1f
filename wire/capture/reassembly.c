/* reassembly.c - one direction of a TCP connection.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/reassembly.h"

#include <stdlib.h>
#include <string.h>

#include "common/out_of_memory.h"

/* A segment that waits for those before it; [seq, seq + wire_len), of which len bytes are here. */
struct td_held {
    struct td_held *next;
    int64_t t_ns;
    uint32_t seq, ack, len, wire_len;
    uint8_t data[];
};

/* Sequence numbers wrap: the distance from a to b, less than 2^31 either way. */
static int32_t distance(uint32_t a, uint32_t b)
{
    return (int32_t)(b - a);
}

void td_reassembly_begin(struct td_reassembly *r, uint32_t first)
{
    *r = (struct td_reassembly){.begun = true, .first = first, .next = first};
}

/* ---- handing on ------------------------------------------------------------------------------ */

static void hand_gap(struct td_reassembly *r, uint32_t n, enum td_gap_cause cause,
                     const struct td_reassembly_sink *sink, struct td_reassembly_counts *counts)
{
    if (!n)
        return;
    r->next += n;
    if (cause == TD_GAP_SNAP)
        counts->snapped += n;
    else
        counts->lost += n;
    sink->gap(sink->arg, r->last_ns, n, cause);
}

/* Hand on what is new of a segment that begins at or before r->next. */
static void hand_on(struct td_reassembly *r, const struct td_segment *s, const struct td_reassembly_sink *sink,
                    struct td_reassembly_counts *counts)
{
    const uint32_t known = (uint32_t)distance(s->seq, r->next);
    struct td_chunk chunk;

    if (known >= s->wire_len) {
        counts->repeated += s->len;
        return;
    }
    counts->repeated += known < s->len ? known : s->len;
    r->last_ns = s->t_ns > r->last_ns ? s->t_ns : r->last_ns;
    if (s->len > known) {
        chunk = (struct td_chunk){r->last_ns, s->data + known, s->len - known, r->next, s->ack};
        r->next += s->len - known;
        counts->bytes += s->len - known;
        sink->bytes(sink->arg, &chunk);
    }
    hand_gap(r, s->wire_len - (s->len > known ? s->len : known), TD_GAP_SNAP, sink, counts);
}

/* The first that waits does so no more. The caller frees it. */
static struct td_held *take_first(struct td_reassembly *r, struct td_reassembly_counts *counts)
{
    struct td_held *h = r->held;

    r->held = h->next;
    r->held_bytes -= h->len;
    r->n_held--;
    counts->held -= (int64_t)(sizeof *h + h->len);
    return h;
}

/* Hand on what waited for the bytes that are there now. */
static void hand_on_held(struct td_reassembly *r, const struct td_reassembly_sink *sink,
                         struct td_reassembly_counts *counts)
{
    struct td_held *h;

    while (r->held && distance(r->held->seq, r->next) >= 0) {
        h = take_first(r, counts);
        hand_on(r, &(struct td_segment){.t_ns = h->t_ns, .seq = h->seq, .ack = h->ack, .data = h->data, .len = h->len,
                                        .wire_len = h->wire_len},
                sink, counts);
        free(h);
    }
}

/* Give up the hole before the first that waits. */
static void give_up_hole(struct td_reassembly *r, const struct td_reassembly_sink *sink, struct td_reassembly_counts *counts)
{
    hand_gap(r, (uint32_t)distance(r->next, r->held->seq), TD_GAP_LOST, sink, counts);
    hand_on_held(r, sink, counts);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Do two segments disagree about the bytes that both have? */
static bool differ(const struct td_held *h, const struct td_segment *s)
{
    const int32_t ahead = distance(h->seq, s->seq);
    const uint32_t skip_held = ahead > 0 ? (uint32_t)ahead : 0, skip_new = ahead < 0 ? (uint32_t)-(int64_t)ahead : 0;
    uint32_t n;

    if (skip_held >= h->len || skip_new >= s->len)
        return false;
    n = h->len - skip_held < s->len - skip_new ? h->len - skip_held : s->len - skip_new;
    return memcmp(h->data + skip_held, s->data + skip_new, n) != 0;
}

/* Keep a segment until those before it come. Of equal numbers the first one stands first. */
static void hold(struct td_reassembly *r, const struct td_segment *s, const struct td_reassembly_sink *sink,
                 struct td_reassembly_counts *counts)
{
    struct td_held **at, *h;

    for (at = &r->held; *at && distance((*at)->seq, s->seq) >= 0; at = &(*at)->next) {
        counts->differing += differ(*at, s);
        if ((*at)->seq == s->seq && (*at)->len >= s->len && (*at)->wire_len >= s->wire_len) {
            counts->repeated += s->len;
            return;
        }
    }
    if (*at)
        counts->differing += differ(*at, s);
    h = malloc(sizeof *h + s->len);
    if (!h) {
        td_out_of_memory_note();
        counts->no_room += s->len; /* its bytes become a gap, like any that never came */
        return;
    }
    *h = (struct td_held){.next = *at, .t_ns = s->t_ns, .seq = s->seq, .ack = s->ack, .len = s->len,
                           .wire_len = s->wire_len};
    memcpy(h->data, s->data, s->len);
    *at = h;
    r->held_bytes += s->len;
    r->n_held++;
    counts->held += (int64_t)(sizeof *h + s->len);
    while (r->held && (r->held_bytes > TD_REASSEMBLY_MAX_HELD || r->n_held > TD_REASSEMBLY_MAX_SEGMENTS ||
                       counts->held > counts->max_held))
        give_up_hole(r, sink, counts);
}

void td_reassembly_add(struct td_reassembly *r, const struct td_segment *s, const struct td_reassembly_sink *sink,
                       struct td_reassembly_counts *counts)
{
    if (s->wire_len) {
        if (!r->begun)
            td_reassembly_begin(r, s->seq);
        if (distance(s->seq, r->next) >= 0) {
            hand_on(r, s, sink, counts);
            hand_on_held(r, sink, counts);
        } else {
            hold(r, s, sink, counts);
        }
    }
    if (s->flags & TD_TCP_FIN) {
        r->has_end = true;
        r->end = s->seq + s->wire_len;
    }
}

/* Was the hole acknowledged, by an answer or so long ago that a packet which the capture saw out of
 * order would have come? */
static bool is_lost(const struct td_reassembly *r, int64_t t_ns, bool answers)
{
    return r->held && r->has_ack && distance(r->held->seq, r->acked) >= 0 &&
           (answers || t_ns - r->held->t_ns > TD_REASSEMBLY_PATIENCE_NS);
}

void td_reassembly_acked(struct td_reassembly *r, uint32_t ack, int64_t t_ns, bool answers,
                         const struct td_reassembly_sink *sink, struct td_reassembly_counts *counts)
{
    uint32_t to;

    if (!r->begun)
        return;
    if (!r->has_ack || distance(r->acked, ack) > 0)
        r->acked = ack;
    r->has_ack = true;
    while (is_lost(r, t_ns, answers))
        give_up_hole(r, sink, counts);
    to = r->has_end && distance(r->end, ack) > 0 ? r->end : ack;
    if (answers && distance(r->next, to) > 0)
        hand_gap(r, (uint32_t)distance(r->next, to), TD_GAP_LOST, sink, counts);
}

void td_reassembly_end(struct td_reassembly *r, const struct td_reassembly_sink *sink,
                       struct td_reassembly_counts *counts)
{
    while (r->held)
        give_up_hole(r, sink, counts);
    if (r->begun && r->has_end && distance(r->next, r->end) > 0)
        hand_gap(r, (uint32_t)distance(r->next, r->end), TD_GAP_LOST, sink, counts);
}

bool td_reassembly_is_over(const struct td_reassembly *r)
{
    return r->has_end && (!r->begun || distance(r->end, r->next) >= 0);
}

void td_reassembly_release(struct td_reassembly *r, struct td_reassembly_counts *counts)
{
    while (r->held)
        free(take_first(r, counts));
    memset(r, 0, sizeof *r);
}
