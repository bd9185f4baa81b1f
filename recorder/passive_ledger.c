/* passive_ledger.c - names and sentences for the counts of a capture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/passive_ledger.h"

#include "common/number_words.h"

static void count_packets(struct td_writer *w, const struct td_capture_counts *c)
{
    static const char *const NAMES[TD_PACKET_KINDS] = {
        "capture.packets.tcp", "capture.packets.not_ip", "capture.packets.not_tcp", "capture.packets.fragment",
        "capture.packets.headers_snapped", "capture.packets.bad"};
    int i;

    td_writer_count(w, "capture.packets", c->packets, 0);
    for (i = 0; i < TD_PACKET_KINDS; i++)
        if (c->packets_of[i])
            td_writer_count(w, NAMES[i], c->packets_of[i], 0);
}

void td_passive_ledger_write(struct td_writer *w, const struct td_capture_counts *c, const struct td_passive_left *left)
{
    const struct { const char *name; int64_t n, bytes; } COUNTS[] = {
        {"capture.packets.dropped_by_kernel", left->dropped, 0},
        {"capture.segments.other_server", c->other_segments, 0},
        {"capture.segments.no_connection", c->orphan_segments, 0},
        {"capture.segments.snapped", c->snapped_segments, c->streams.snapped},
        {"capture.segments.differing", c->streams.differing, 0},
        {"capture.connections", c->connections, c->payload_bytes},
        {"capture.connections.midway", c->midway, 0},
        {"capture.connections.dropped", c->dropped, 0},
        {"capture.connections.tls", c->http.connections_tls, 0},
        {"capture.connections.http2", c->http.connections_http2, 0},
        {"capture.connections.no_http", c->http.connections_other, c->http.bytes_no_http},
        {"capture.bytes.in_order", 0, c->streams.bytes},
        {"capture.bytes.repeated", 0, c->streams.repeated},
        {"capture.bytes.lost", 0, c->streams.lost},
        {"capture.bytes.no_room", 0, c->streams.no_room},
        {"capture.bytes.undecided", 0, c->undecided_bytes},
        {"capture.bytes.skipped", 0, c->http.bytes_skipped},
        {"capture.requests", c->http.requests, 0},
        {"capture.requests.other", c->http.other_requests - left->beyond_max - left->not_sampled - left->over_limit - left->no_head - left->compressed - left->keys, c->http.bytes_other},
        {"capture.requests.left_out", left->beyond_max, 0},
        {"capture.requests.not_sampled", left->not_sampled, 0},
        {"capture.requests.over_limit", left->over_limit, 0},
        {"capture.requests.no_head", left->no_head, 0},
        {"capture.requests.compressed", left->compressed, 0},
        {"capture.requests.keys", left->keys, 0},
        {"capture.exchanges", c->http.exchanges, c->http.bytes_kept},
        {"capture.exchanges.not_whole", c->http.not_whole, 0},
        {"capture.answers.uncompressed", c->answers.uncompressed, c->answers.bytes_uncompressed},
        {"capture.answers.replaced", 0, c->answers.bytes_replaced},
        {"capture.answers.too_large", c->answers.too_large, 0},
        {"capture.answers.no_memory", c->answers.no_memory, 0},
        {"capture.answers.unknown_coding", c->answers.unknown, 0},
        {"capture.answers.damaged", c->answers.damaged, 0},
    };
    size_t i;

    count_packets(w, c);
    for (i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
        if (COUNTS[i].n || COUNTS[i].bytes)
            td_writer_count(w, COUNTS[i].name, COUNTS[i].n, COUNTS[i].bytes);
}

void td_passive_ledger_print(const struct td_capture_counts *c, const struct td_passive_left *left, FILE *to)
{
    fprintf(to, "capture  %lld packet%s, %lld connection%s, %lld request%s; %lld exchange%s kept\n", (long long)c->packets,
            td_plural(c->packets), (long long)c->connections, td_plural(c->connections), (long long)c->http.requests,
            td_plural(c->http.requests), (long long)c->http.exchanges, td_plural(c->http.exchanges));
    if (c->http.not_whole)
        fprintf(to, "         %lld of them not whole: they are kept as far as they go, and not judged\n",
                (long long)c->http.not_whole);
    if (left->dropped)
        fprintf(to, "         %lld packet%s dropped by the kernel, which had no room for %s\n", (long long)left->dropped,
                td_plural(left->dropped), left->dropped == 1 ? "it" : "them");
    if (c->streams.lost)
        fprintf(to, "         %lld bytes of connections are not in the capture\n", (long long)c->streams.lost);
    if (c->snapped_segments)
        fprintf(to, "         %lld packet%s cut by the snap length (%lld bytes): capture with tcpdump -s 0\n",
                (long long)c->snapped_segments, td_plural(c->snapped_segments), (long long)c->streams.snapped);
    if (c->http.connections_tls)
        fprintf(to, "         %lld connection%s of TLS: capture where it is plain, behind the proxy that ends it\n",
                (long long)c->http.connections_tls, td_plural(c->http.connections_tls));
    if (c->http.connections_http2)
        fprintf(to, "         %lld connection%s of HTTP/2: capture behind the proxy that speaks HTTP/1.1 to the server\n",
                (long long)c->http.connections_http2, td_plural(c->http.connections_http2));
    if (left->beyond_max)
        fprintf(to, "         %lld request%s left out (--max-exchanges)\n", (long long)left->beyond_max, td_plural(left->beyond_max));
    if (left->not_sampled)
        fprintf(to, "         %lld request%s left out, of connections that are not in the sample (--sample)\n", (long long)left->not_sampled,
                td_plural(left->not_sampled));
    if (left->over_limit)
        fprintf(to, "         %lld request%s left out: there were more at once, or more prompts, than are followed\n",
                (long long)left->over_limit, td_plural(left->over_limit));
    if (left->no_head)
        fprintf(to, "         %lld request%s left out: their headers, or trailers, are not in the capture as a whole, or longer than 64 KiB, "
                "and keys may stand there\n",
                (long long)left->no_head, td_plural(left->no_head));
    if (left->compressed)
        fprintf(to, "         %lld request%s left out: the client compressed %s\n", (long long)left->compressed,
                td_plural(left->compressed), left->compressed == 1 ? "its body" : "their bodies");
    if (c->answers.too_large)
        fprintf(to, "         %lld compressed answer%s for more than is read: kept as far as that goes\n",
                (long long)c->answers.too_large, c->answers.too_large == 1 ? " stands" : "s stand");
    if (c->answers.unknown)
        fprintf(to, "         %lld answer%s compressed in a way that is not read\n", (long long)c->answers.unknown,
                c->answers.unknown == 1 ? " is" : "s are");
}

/* There were requests, and none of them was kept. */
static int explain_requests(const struct td_conversation_counts *h, const struct td_passive_left *left, bool only_path, struct td_error *err)
{
    if (left->no_head == h->other_requests)
        return td_fail(err, TD_EPROTO, "of %lld request%s headers, or trailers, are not in the capture as a whole (tcpdump -s 0), or longer than 64 KiB, "
                       "and keys may stand there",
                       (long long)h->other_requests, td_plural(h->other_requests));
    if (left->compressed == h->other_requests)
        return td_fail(err, TD_EPROTO, "of %lld request%s the client compressed the body: what it asks is not known",
                       (long long)h->other_requests, td_plural(h->other_requests));
    if (left->not_sampled)
        return td_fail(err, TD_EPROTO, "no connection with requests that are kept is in the sample: %lld request%s left out (--sample)",
                       (long long)left->not_sampled, td_plural(left->not_sampled));
    if (only_path)
        return td_fail(err, TD_EPROTO, "none of %lld requests is of a path that --only-path names", (long long)h->other_requests);
    return td_fail(err, TD_EPROTO, "none of %lld requests generates text; --only-path names other paths that are to be kept",
                   (long long)h->other_requests);
}

int td_passive_ledger_explain(const struct td_capture_counts *c, const struct td_passive_left *left, const char *server,
                              bool only_path, struct td_error *err)
{
    const struct td_conversation_counts *h = &c->http;

    if (!c->packets)
        return td_fail(err, TD_EPROTO, "no packet came by; is the traffic at another interface (--interface any), or in a container's network (docs/passive.md)?");
    if (h->other_requests)
        return explain_requests(h, left, only_path, err);
    if (h->connections_tls)
        return td_fail(err, TD_EPROTO,
                       "no request can be read: %lld of %lld connections %s TLS. Capture where it is plain: between the proxy "
                       "that ends TLS and the server",
                       (long long)h->connections_tls, (long long)c->connections, h->connections_tls == 1 ? "is" : "are");
    if (h->connections_http2)
        return td_fail(err, TD_EPROTO,
                       "no request can be read: %lld of %lld connections %s HTTP/2. Capture between the proxy and the server, "
                       "where it is HTTP/1.1",
                       (long long)h->connections_http2, (long long)c->connections, h->connections_http2 == 1 ? "is" : "are");
    if (server && c->other_segments && c->other_segments == c->packets_of[TD_PACKET_TCP])
        return td_fail(err, TD_EPROTO, "of %lld packets none is from or to %s; name the server's address there",
                       (long long)c->packets, server);
    return td_fail(err, TD_EPROTO, "no request was seen in %lld packets, %lld of them of TCP (docs/passive.md)",
                   (long long)c->packets, (long long)c->packets_of[TD_PACKET_TCP]);
}
