/* test_packet.c - packets whose headers lie: each length is checked against what was captured. What packets look like
 * otherwise is in tests/e2e/500-captures.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "wire/capture/packet.h"

static const uint8_t IPV4[] = {0x45, 0, 0, 43, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, /* 43 bytes */
                               0x12, 0x34, 0, 80, 0, 0, 0, 9, 0, 0, 0, 7, 0x50, 16, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'};
enum { N = sizeof IPV4 };

/* Read the first n bytes in memory of their own, so that a sanitizer sees what is read behind them. */
static enum td_packet_kind read_first(int link, const uint8_t *p, size_t n, size_t wire, struct td_segment *out)
{
    uint8_t *own = malloc(n ? n : 1);
    enum td_packet_kind kind;

    assert_non_null(own);
    memcpy(own, p, n);
    kind = td_packet_read(link, own, n, wire, out);
    free(own);
    return kind;
}

static enum td_packet_kind kind_with(size_t at, uint8_t value)
{
    uint8_t p[N];
    struct td_segment s;

    memcpy(p, IPV4, N);
    p[at] = value;
    return td_packet_read(TD_LINK_RAW, p, N, N, &s);
}

static void a_segment_is_read(void **state)
{
    static const uint8_t FROM[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 1};
    struct td_segment s;

    (void)state;
    assert_int_equal(td_packet_read(TD_LINK_RAW, IPV4, N, N, &s), TD_PACKET_TCP);
    assert_memory_equal(s.from.address, FROM, 16);
    assert_int_equal(s.from.port, 0x1234);
    assert_int_equal(s.to.port, 80);
    assert_int_equal(s.seq, 9);
    assert_int_equal(s.ack, 7);
    assert_int_equal(s.flags, TD_TCP_ACK);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.data, "abc", 3);
}

static void each_cut_is_snapped(void **state)
{
    struct td_segment s;
    size_t n;

    (void)state;
    for (n = 0; n < N - 3; n++)
        assert_int_equal(read_first(TD_LINK_RAW, IPV4, n, N, &s), TD_PACKET_SNAPPED);
    for (; n <= N; n++) {
        assert_int_equal(read_first(TD_LINK_RAW, IPV4, n, N, &s), TD_PACKET_TCP);
        assert_int_equal(s.len, n - 40);
        assert_int_equal(s.wire_len, 3);
    }
}

static void lengths_that_contradict_are_bad(void **state)
{
    (void)state;
    assert_int_equal(kind_with(0, 0x44), TD_PACKET_BAD);  /* a header of 16 bytes */
    assert_int_equal(kind_with(3, 19), TD_PACKET_BAD);    /* shorter than its header */
    assert_int_equal(kind_with(3, 44), TD_PACKET_BAD);    /* longer than the frame */
    assert_int_equal(kind_with(32, 0x40), TD_PACKET_BAD); /* TCP's header of 16 bytes */
    assert_int_equal(kind_with(32, 0xF0), TD_PACKET_BAD); /* and of 60, where 23 are */
    assert_int_equal(kind_with(6, 0x20), TD_PACKET_FRAGMENT);
    assert_int_equal(kind_with(7, 1), TD_PACKET_FRAGMENT);
    assert_int_equal(kind_with(9, 17), TD_PACKET_NOT_TCP);
    assert_int_equal(kind_with(0, 0x55), TD_PACKET_NOT_IP);
}

static void padding_is_no_payload(void **state)
{
    uint8_t frame[60] = {0}; /* the least that Ethernet sends */
    struct td_segment s;

    (void)state;
    frame[12] = 8;
    memcpy(frame + 14, IPV4, N);
    frame[14 + 3] = 41;
    assert_int_equal(td_packet_read(TD_LINK_ETHERNET, frame, sizeof frame, sizeof frame, &s), TD_PACKET_TCP);
    assert_int_equal(s.len, 1);
    frame[14 + 3] = 0; /* cut into segments later: the frame tells */
    assert_int_equal(td_packet_read(TD_LINK_ETHERNET, frame, sizeof frame, sizeof frame, &s), TD_PACKET_TCP);
    assert_int_equal(s.len, sizeof frame - 14 - 40);
}

static void extensions_of_ipv6_are_stepped_over(void **state)
{
    uint8_t p[40 + 16 + 12 + 20 + 3] = {0x60};
    uint8_t *tcp = p + 68;
    struct td_segment s;
    size_t n;

    (void)state;
    p[5] = sizeof p - 40;
    p[6] = 0;                 /* hop by hop, of 16 bytes */
    p[40] = 51, p[41] = 1;    /* then authentication, of 12 */
    p[56] = 6, p[57] = 1;     /* then TCP */
    memcpy(tcp, IPV4 + 20, 23);
    assert_int_equal(td_packet_read(TD_LINK_IPV6, p, sizeof p, sizeof p, &s), TD_PACKET_TCP);
    assert_int_equal(s.len, 3);
    assert_int_equal(s.to.port, 80);
    for (n = 0; n < sizeof p - 3; n++)
        assert_int_equal(read_first(TD_LINK_IPV6, p, n, sizeof p, &s), TD_PACKET_SNAPPED);
    p[41] = 255; /* it reaches behind the packet */
    assert_int_equal(td_packet_read(TD_LINK_IPV6, p, sizeof p, sizeof p, &s), TD_PACKET_SNAPPED);
    p[6] = 44;
    assert_int_equal(td_packet_read(TD_LINK_IPV6, p, sizeof p, sizeof p, &s), TD_PACKET_FRAGMENT);
}

static void tags_end(void **state)
{
    uint8_t p[14 + 40 * 4] = {0};
    struct td_segment s;
    size_t i;

    (void)state;
    for (i = 12; i + 1 < sizeof p; i += 4)
        p[i] = 0x81; /* nothing but tags */
    assert_int_equal(td_packet_read(TD_LINK_ETHERNET, p, sizeof p, sizeof p, &s), TD_PACKET_NOT_IP);
    assert_int_equal(read_first(TD_LINK_ETHERNET, p, 17, sizeof p, &s), TD_PACKET_SNAPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_read), cmocka_unit_test(each_cut_is_snapped), cmocka_unit_test(lengths_that_contradict_are_bad),
        cmocka_unit_test(padding_is_no_payload), cmocka_unit_test(extensions_of_ipv6_are_stepped_over), cmocka_unit_test(tags_end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
