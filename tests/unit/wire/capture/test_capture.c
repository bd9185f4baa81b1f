/* test_capture.c - bounds of the way from packets to exchanges. What packets can do otherwise is in
 * tests/e2e/500-captures.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/capture/capture.h"

#define MS INT64_C(1000000)

struct seen { int64_t opened, closed, unseen; char last_close[400]; size_t received; };

static void take(void *arg, const struct td_wire *rec)
{
    struct seen *s = arg;

    if (rec->dir == TD_WIRE_RECEIVED) {
        s->received += rec->len;
    } else if (rec->dir == TD_WIRE_NOTE && memmem(rec->data, rec->len, "{\"open\"", 7)) {
        s->opened++;
    } else if (rec->dir == TD_WIRE_NOTE) {
        s->closed++;
        s->unseen += memmem(rec->data, rec->len, "\"unseen\"", 8) != NULL;
        snprintf(s->last_close, sizeof s->last_close, "%.*s", (int)rec->len, (const char *)rec->data);
    }
}

static bool want_all(void *arg, uint64_t connection, const char *method, const char *path, const char *whole, size_t n, size_t body,
                     struct td_conversation_name *name)
{
    (void)arg, (void)connection, (void)method, (void)path, (void)whole, (void)n, (void)body;
    snprintf(name->prompt_id, sizeof name->prompt_id, "p");
    return true;
}

static struct td_capture *capture_of(struct seen *s, int64_t max_held)
{
    const struct td_capture_options opt = {.api = "openai", .wants = want_all, .sink = take, .sink_arg = s,
                                           .max_held_bytes = max_held};
    struct td_capture *c;

    memset(s, 0, sizeof *s);
    assert_int_equal(td_capture_new(&opt, &c, NULL), TD_OK);
    return c;
}

/* A segment of raw IPv4 from 10.0.0.1:port to 10.0.0.2:80, or back. */
static void put(struct td_capture *c, bool from_client, uint16_t port, int flags, uint32_t seq, uint32_t ack,
                const char *data, size_t n, int64_t t_ns)
{
    uint8_t *p = calloc(1, 40 + n);
    const uint16_t from = from_client ? port : 80, to = from_client ? 80 : port;
    const uint32_t words[2] = {seq, ack};
    int i;

    assert_non_null(p);
    p[0] = 0x45;
    p[2] = (uint8_t)((40 + n) >> 8);
    p[3] = (uint8_t)(40 + n);
    p[9] = 6;
    p[12] = p[16] = 10;
    p[15] = from_client ? 1 : 2;
    p[19] = from_client ? 2 : 1;
    p[20] = (uint8_t)(from >> 8), p[21] = (uint8_t)from, p[22] = (uint8_t)(to >> 8), p[23] = (uint8_t)to;
    for (i = 0; i < 8; i++)
        p[24 + i] = (uint8_t)(words[i / 4] >> (24 - 8 * (i % 4)));
    p[32] = 5 << 4;
    p[33] = (uint8_t)flags;
    memcpy(p + 40, data, n);
    td_capture_packet(c, TD_LINK_RAW, t_ns, p, 40 + n, 40 + n);
    free(p);
}

static void put_text(struct td_capture *c, bool from_client, uint16_t port, uint32_t seq, const char *text)
{
    put(c, from_client, port, 0, seq, 0, text, strlen(text), 0);
}

#define ASK "POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
#define SAY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho"

static void open_connection(struct td_capture *c, uint16_t port)
{
    put(c, true, port, TD_TCP_SYN, 99, 0, "", 0, 0);
    put(c, false, port, TD_TCP_SYN | TD_TCP_ACK, 499, 100, "", 0, 0);
}

static void test_an_exchange(void **state)
{
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 20);

    (void)state;
    open_connection(c, 7);
    put_text(c, true, 7, 100, ASK);
    assert_int_equal(td_capture_in_flight(c), 1);
    put_text(c, false, 7, 500, SAY);
    assert_int_equal(td_capture_in_flight(c), 0);
    assert_string_equal(s.last_close, "{\"close\":{\"ok\":true}}");
    assert_int_equal(s.received, strlen(SAY));
    td_capture_free(c);
}

static void test_what_waits_behind_a_hole_is_bounded(void **state)
{
    enum { PIECE = 32768, N = (int)(TD_REASSEMBLY_MAX_HELD / PIECE) + 2 };
    char *piece = malloc(PIECE);
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 30);
    int i;

    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', PIECE);
    open_connection(c, 7);
    put_text(c, true, 7, 100, ASK);
    put_text(c, false, 7, 500, "HTTP/1.1 200 OK\r\n\r\n");
    for (i = 0; i < N; i++) {
        assert_int_equal(s.closed, i * (int64_t)PIECE > (int64_t)TD_REASSEMBLY_MAX_HELD);
        put(c, false, 7, 0, 5000 + (uint32_t)i * PIECE, 0, piece, PIECE, 0);
    }
    assert_int_equal(s.unseen, 1);
    assert_non_null(strstr(s.last_close, "a part of its answer was lost by the capture"));
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 5000 - 519);
    td_capture_free(c);
    free(piece);
}

/* An enemy's segments of one byte would else be searched one by one, for ever. */
static void test_segments_behind_a_hole_are_bounded(void **state)
{
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 30);
    int i;

    (void)state;
    open_connection(c, 7);
    for (i = 0; i <= TD_REASSEMBLY_MAX_SEGMENTS; i++) {
        assert_int_equal(td_capture_counts_of(c)->streams.lost, 0);
        put(c, true, 7, 0, 200 + 2 * (uint32_t)i, 0, "x", 1, 0);
    }
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 100);
    td_capture_free(c);
}

static void test_memory_behind_all_holes_is_bounded(void **state)
{
    char piece[4000];
    struct seen s;
    struct td_capture *c = capture_of(&s, 40000);
    int i;

    (void)state;
    memset(piece, 'x', sizeof piece);
    for (i = 0; i < 9; i++) {
        open_connection(c, (uint16_t)(7 + i));
        put(c, true, (uint16_t)(7 + i), 0, 200, 0, piece, sizeof piece, 0);
    }
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 0);
    assert_in_range(td_capture_counts_of(c)->streams.held, 9 * sizeof piece, 40000);
    open_connection(c, 99);
    put(c, true, 99, 0, 200, 0, piece, sizeof piece, 0);
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 100);
    td_capture_end(c);
    assert_int_equal(td_capture_counts_of(c)->streams.held, 0);
    td_capture_free(c);
}

static void test_the_silent_ones_are_dropped(void **state)
{
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 20);
    int i;

    (void)state;
    for (i = 0; i < 8; i++) {
        open_connection(c, (uint16_t)(7 + i));
        put_text(c, true, (uint16_t)(7 + i), 100, ASK);
    }
    put_text(c, true, 7, 100, ASK); /* not silent */
    td_capture_drop_oldest(c);
    assert_int_equal(td_capture_counts_of(c)->dropped, 3);
    assert_int_equal(s.unseen, 3);
    put_text(c, false, 7, 500, SAY);
    assert_string_equal(s.last_close, "{\"close\":{\"ok\":true}}");
    td_capture_free(c);
}

/* Packets may be captured a little out of order; what was acknowledged long ago is lost. */
static void test_a_hole_that_was_acknowledged_is_given_up(void **state)
{
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 20);

    (void)state;
    open_connection(c, 7);
    put_text(c, true, 7, 100, ASK);
    put(c, false, 7, 0, 600, 0, "later", 5, MS);
    put(c, true, 7, TD_TCP_ACK, 100 + strlen(ASK), 605, "", 0, 2 * MS);
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 0);
    put(c, true, 7, TD_TCP_ACK, 100 + strlen(ASK), 605, "", 0, MS + TD_REASSEMBLY_PATIENCE_NS);
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 0);
    put(c, true, 7, TD_TCP_ACK, 100 + strlen(ASK), 605, "", 0, 2 * MS + TD_REASSEMBLY_PATIENCE_NS);
    assert_int_equal(td_capture_counts_of(c)->streams.lost, 100);
    td_capture_free(c);
}

static void test_connections_are_bounded(void **state)
{
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 30);
    int i;

    (void)state;
    for (i = 0; i < TD_CAPTURE_MAX_CONNECTIONS + 3; i++) {
        open_connection(c, (uint16_t)(1000 + i));
        put_text(c, true, (uint16_t)(1000 + i), 100, ASK);
    }
    assert_int_equal(td_capture_counts_of(c)->dropped, 3);
    assert_int_equal(s.unseen, 3);
    assert_non_null(strstr(s.last_close, "more connections were open than are followed"));
    td_capture_free(c);
    assert_int_equal(s.closed, TD_CAPTURE_MAX_CONNECTIONS + 3);
}

static void test_requests_that_wait_are_bounded(void **state)
{
    struct seen s;
    struct td_capture *c = capture_of(&s, 1 << 20);
    int i;

    (void)state;
    open_connection(c, 7);
    for (i = 0; i < TD_CONVERSATION_MAX_PENDING; i++)
        put_text(c, true, 7, 100 + (uint32_t)(i * (int)strlen(ASK)), ASK);
    assert_int_equal(s.closed, 0);
    put_text(c, true, 7, 100 + (uint32_t)(i * (int)strlen(ASK)), ASK);
    assert_int_equal(s.unseen, TD_CONVERSATION_MAX_PENDING + 1);
    td_capture_free(c);
}

/* The rest of a large request is not kept, and its answer is not taken for that of another one. */
static void test_requests_in_memory_are_bounded(void **state)
{
    char big[3000];
    struct seen s;
    struct td_capture *c = capture_of(&s, 1000 + 2 * 16);

    (void)state;
    memset(big, 'x', sizeof big);
    memcpy(big, "POST /x HTTP/1.1\r\nContent-Length: 9000\r\n\r\n", 43);
    open_connection(c, 7);
    put(c, true, 7, TD_TCP_ACK, 100, 500, big, 500, 0);
    put(c, true, 7, TD_TCP_ACK, 600, 500, big + 500, 1000, 0);
    assert_int_equal(s.opened, 1);
    put(c, false, 7, TD_TCP_ACK, 500, 1600, SAY, strlen(SAY), 0);
    assert_int_equal(s.unseen, 1);
    assert_non_null(strstr(s.last_close, "--max-memory"));
    put(c, true, 7, 0, 1600, 0, big + 1500, 500, 0);
    put(c, true, 7, TD_TCP_ACK, 2100, 500 + (uint32_t)strlen(SAY), ASK, strlen(ASK), 0);
    put(c, false, 7, TD_TCP_ACK, 500 + (uint32_t)strlen(SAY), 2100 + (uint32_t)strlen(ASK), SAY, strlen(SAY), 0);
    assert_string_equal(s.last_close, "{\"close\":{\"ok\":true}}");
    assert_int_equal(td_capture_counts_of(c)->http.bytes_skipped, 1500);
    td_capture_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_exchange),
        cmocka_unit_test(test_what_waits_behind_a_hole_is_bounded),
        cmocka_unit_test(test_segments_behind_a_hole_are_bounded),
        cmocka_unit_test(test_memory_behind_all_holes_is_bounded),
        cmocka_unit_test(test_the_silent_ones_are_dropped),
        cmocka_unit_test(test_a_hole_that_was_acknowledged_is_given_up),
        cmocka_unit_test(test_connections_are_bounded),
        cmocka_unit_test(test_requests_that_wait_are_bounded),
        cmocka_unit_test(test_requests_in_memory_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
