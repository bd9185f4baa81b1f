/* fuzz_capture.c - fuzz the way from packets to exchanges: no crash, every packet and byte accounted for,
 * every stream opened once and closed once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An input is a row of packets: how they are captured (1 byte: the link layer), then for each the time since
 * the one before in units of 10 ms (1 byte), its length (2 bytes, big-endian), how many bytes more it had on
 * the wire (1 byte), and its bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_main.h"
#include "wire/capture/capture.h"

enum { STREAMS = 4096 };

struct seen {
    int64_t opened, closed, bytes;
    bool open[STREAMS];
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz_capture: %s\n", what);
        abort();
    }
}

static void take(void *arg, const struct td_wire *rec)
{
    struct seen *s = arg;
    bool *open = &s->open[rec->stream % STREAMS];

    if (rec->dir != TD_WIRE_NOTE) {
        check(*open, "bytes of a stream that is not open");
        s->bytes += (int64_t)rec->len;
    } else if (memmem(rec->data, rec->len, "{\"open\"", 7)) {
        check(!*open || s->opened >= STREAMS, "opened twice");
        s->opened += *open = true;
    } else if (memmem(rec->data, rec->len, "{\"uncompressed\"", 15)) {
        check(*open, "uncompressed, and not open");
    } else {
        check(*open, "closed, and not open");
        *open = false;
        s->closed++;
    }
}

static bool want_most(void *arg, uint64_t connection, const char *method, const char *path, const char *whole, size_t n, size_t body,
                      struct td_conversation_name *name)
{
    (void)arg, (void)connection, (void)whole;
    check(body <= n, "the body begins behind the request");
    snprintf(name->prompt_id, sizeof name->prompt_id, "%.20s", path);
    return *method == 'P';
}

static void balance(const struct td_capture_counts *c, const struct seen *s)
{
    int64_t packets = 0;
    int i;

    for (i = 0; i < TD_PACKET_KINDS; i++)
        packets += c->packets_of[i];
    check(packets == c->packets, "packets do not add up");
    check(c->payload_bytes == c->streams.bytes + c->streams.repeated + c->streams.no_room + c->undecided_bytes,
          "payload does not add up");
    check(c->streams.bytes ==
              c->http.bytes_kept + c->http.bytes_other + c->http.bytes_skipped + c->http.bytes_no_http,
          "messages do not add up");
    check(s->bytes == c->http.bytes_kept - c->answers.bytes_replaced + c->answers.bytes_uncompressed, "bytes of exchanges do not add up");
    check(s->opened == s->closed && s->opened == c->http.exchanges, "not all that were opened were closed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const int LINKS[] = {TD_LINK_ETHERNET, TD_LINK_NULL, TD_LINK_RAW, TD_LINK_LINUX_SLL, TD_LINK_LINUX_SLL2};
    struct seen seen = {0};
    struct td_capture_options opt = {.api = "openai", .wants = want_most, .sink = take, .sink_arg = &seen,
                                     .max_held_bytes = 1 << 16};
    struct td_capture *c;
    int64_t t_ns = 1;
    size_t at = 1, len;

    if (!n || td_capture_new(&opt, &c, NULL))
        return 0;
    while (n - at >= 4) {
        len = (size_t)data[at + 1] << 8 | data[at + 2];
        len = len < n - at - 4 ? len : n - at - 4;
        t_ns += data[at] * INT64_C(10000000);
        td_capture_packet(c, LINKS[data[0] % 5], t_ns, data + at + 4, len, len + data[at + 3]);
        at += 4 + len;
    }
    td_capture_end(c);
    check(td_capture_in_flight(c) == 0, "open after the end");
    balance(td_capture_counts_of(c), &seen);
    td_capture_free(c);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/capture", 20000)
