/* packet.h - find the TCP segment in a captured packet.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Link layers: https://www.tcpdump.org/linktypes.html; 802.1Q and 802.1ad tags; RFC 791, RFC 8200 (with
 * extension headers), RFC 9293. No state, no allocation; every length is checked against what was
 * captured. */
#ifndef TD_WIRE_CAPTURE_PACKET_H
#define TD_WIRE_CAPTURE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libpcap's DLT numbers, which pcap_datalink() returns. */
enum td_link {
    TD_LINK_NULL = 0, TD_LINK_ETHERNET = 1, TD_LINK_RAW = 12, TD_LINK_RAW_FILE = 101, TD_LINK_LOOP = 108,
    TD_LINK_LINUX_SLL = 113, TD_LINK_IPV4 = 228, TD_LINK_IPV6 = 229, TD_LINK_LINUX_SLL2 = 276
};
bool td_link_is_known(int link);

/* An IPv4 address is kept as IPv6 has it: ::ffff:a.b.c.d. */
struct td_endpoint { uint8_t address[16]; uint16_t port; };
/* Set the address, of 4 bytes in the network's order. */
void td_endpoint_set_ipv4(struct td_endpoint *e, const uint8_t *ipv4);

enum { TD_TCP_FIN = 1, TD_TCP_SYN = 2, TD_TCP_RST = 4, TD_TCP_ACK = 16 };

struct td_segment {
    int64_t t_ns;                 /* of the capture; the caller fills it in */
    struct td_endpoint from, to;
    uint32_t seq, ack;
    uint8_t flags;                /* TD_TCP_* */
    const uint8_t *data;          /* borrowed from the packet */
    uint32_t len;                 /* bytes of payload that were captured */
    uint32_t wire_len;            /* bytes of payload on the wire; more than len: snapped */
};

enum td_packet_kind {
    TD_PACKET_TCP,
    TD_PACKET_NOT_IP,
    TD_PACKET_NOT_TCP,            /* IP, but no TCP */
    TD_PACKET_FRAGMENT,           /* of an IP packet: not put together */
    TD_PACKET_SNAPPED,            /* the snap length ends within the headers */
    TD_PACKET_BAD,                /* lengths that contradict each other */
    TD_PACKET_KINDS
};

/* Read a packet.
 *   captured, wire : bytes at p; bytes that the packet had
 *   out            : filled where the result is TD_PACKET_TCP */
enum td_packet_kind td_packet_read(int link, const uint8_t *p, size_t captured, size_t wire,
                                   struct td_segment *out);

#endif
