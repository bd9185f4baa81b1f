/* capture.h - exchanges of captured packets: connections, their bytes in order, their messages.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   packet (packet.h) -> segment -> connection -> bytes in order (reassembly.h)
 *          -> messages (conversation.h) -> records of the wire log, as wire/client.h makes them
 *
 * Every packet is accounted for (struct td_capture_counts). Memory is bounded: so many connections, so
 * many bytes behind a hole, so many of requests that are not complete. Not thread-safe. */
#ifndef TD_WIRE_CAPTURE_CAPTURE_H
#define TD_WIRE_CAPTURE_CAPTURE_H

#include "common/error.h"
#include "wire/capture/conversation.h"

#define TD_CAPTURE_MAX_CONNECTIONS 32768

struct td_capture_counts {
    int64_t packets, packets_of[TD_PACKET_KINDS]; /* by enum td_packet_kind; their sum is packets */
    int64_t other_segments;       /* of packets_of[TCP]: not to or from the server */
    int64_t orphan_segments;      /* of packets_of[TCP]: without data, of no connection that is known */
    int64_t payload_bytes;        /* of the others, as captured; what becomes of them: streams */
    int64_t undecided_bytes;      /* of payload_bytes: of connections whose server is not known yet */
    int64_t snapped_segments;     /* cut by the snap length */
    int64_t connections, midway, dropped; /* midway: began before the capture; dropped: there were too many */
    struct td_reassembly_counts streams;
    struct td_conversation_counts http;
    struct td_kept_counts answers;
};

struct td_capture_options {
    struct td_endpoint server;    /* all zeros in the address: any; port 0: any */
    const char *api;              /* name of the dialect, for the notes; borrowed */
    td_conversation_wants_fn *wants; void *wants_arg;
    void (*sink)(void *arg, const struct td_wire *rec); void *sink_arg;
    int64_t max_held_bytes;       /* of requests that are not complete, and of answers that are compressed; and again so many behind holes */
};

struct td_capture;
/* opt : copied; what it points at must outlive *out. TD_ENOMEM. */
int td_capture_new(const struct td_capture_options *opt, struct td_capture **out, struct td_error *err);
/* Ends it first, as td_capture_end() does. NULL is allowed. */
void td_capture_free(struct td_capture *c);
/* One packet, in the order of the capture. Calls opt->wants and opt->sink; a lack of memory is counted
 * (common/out_of_memory.h), and is a loss like those of the capture.
 *   link     : enum td_link
 *   t_ns     : since 1970
 *   p        : [captured], borrowed for the call; wire: bytes that the packet had */
void td_capture_packet(struct td_capture *c, int link, int64_t t_ns, const uint8_t *p, size_t captured, size_t wire);
/* Exchanges that begin from now on are of this phase, and not "timed"; borrowed. */
void td_capture_set_phase(struct td_capture *c, const char *phase);
/* Forget a quarter of the connections, those that were silent longest: memory is short. */
void td_capture_drop_oldest(struct td_capture *c);
/* Do so now and then, where memory is short (common/memory.h). Called with every packet. */
void td_capture_look_at_memory(struct td_capture *c);
/* The capture ends: what is open is not whole. */
void td_capture_end(struct td_capture *c);
/* The counts so far: valid until the next call on c, which they may change. */
const struct td_capture_counts *td_capture_counts_of(struct td_capture *c);
/* Exchanges that are kept, and whose answers are not over. */
int64_t td_capture_in_flight(const struct td_capture *c);

#endif
