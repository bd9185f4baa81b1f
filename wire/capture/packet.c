/* packet.c - link layer, IP and TCP headers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/packet.h"

#include <string.h>

enum {
    TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86DD, TYPE_VLAN = 0x8100, TYPE_QINQ = 0x88A8, TYPE_QINQ_OLD = 0x9100,
    MAX_TAGS = 4, MAX_EXTENSIONS = 8, PROTOCOL_TCP = 6
};

/* What is left of a packet. */
struct rest { const uint8_t *p; size_t captured, wire; };

static uint16_t be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint32_t be32(const uint8_t *p) { return (uint32_t)be16(p) << 16 | be16(p + 2); }

/* Step over n bytes. False: they were not captured. */
static bool skip(struct rest *r, size_t n)
{
    if (r->captured < n || r->wire < n)
        return false;
    r->p += n;
    r->captured -= n;
    r->wire -= n;
    return true;
}

/* ---- link layer ------------------------------------------------------------------------------ */

bool td_link_is_known(int link)
{
    switch (link) {
    case TD_LINK_NULL: case TD_LINK_ETHERNET: case TD_LINK_RAW: case TD_LINK_RAW_FILE: case TD_LINK_LOOP:
    case TD_LINK_LINUX_SLL: case TD_LINK_IPV4: case TD_LINK_IPV6: case TD_LINK_LINUX_SLL2:
        return true;
    default:
        return false;
    }
}

/* The type that follows n bytes of header, at `at` in them; tags of VLANs are stepped over. -1: snapped. */
static int type_behind(struct rest *r, size_t n, size_t at)
{
    const uint8_t *head = r->p;
    int type, i;

    if (!skip(r, n))
        return -1;
    type = be16(head + at);
    for (i = 0; i < MAX_TAGS && (type == TYPE_VLAN || type == TYPE_QINQ || type == TYPE_QINQ_OLD); i++) {
        head = r->p;
        if (!skip(r, 4))
            return -1;
        type = be16(head + 2);
    }
    return type;
}

/* A packet without a type: the first four bits of IP tell which one it is. */
static int type_of_ip(const struct rest *r)
{
    if (!r->captured)
        return -1;
    return r->p[0] >> 4 == 4 ? TYPE_IPV4 : r->p[0] >> 4 == 6 ? TYPE_IPV6 : 0;
}

/* Step over the link layer. Returns the type of what follows, 0: another one than IP, -1: snapped. */
static int read_link(int link, struct rest *r)
{
    switch (link) {
    case TD_LINK_ETHERNET: return type_behind(r, 14, 12);
    case TD_LINK_LINUX_SLL: return type_behind(r, 16, 14);
    case TD_LINK_LINUX_SLL2: return type_behind(r, 20, 0);
    case TD_LINK_NULL: /* the family's number differs from system to system, and so does its byte order */
    case TD_LINK_LOOP: return skip(r, 4) ? type_of_ip(r) : -1;
    case TD_LINK_RAW: case TD_LINK_RAW_FILE: case TD_LINK_IPV4: case TD_LINK_IPV6: return type_of_ip(r);
    default: return 0;
    }
}

/* ---- IP -------------------------------------------------------------------------------------- */

/* Bytes behind the IP packet are padding of the link layer. A length of 0 is that of a large packet
 * which the sender's card cuts into segments later: then the frame tells. */
static bool cut_to(struct rest *r, size_t length)
{
    if (!length)
        return true;
    if (length > r->wire)
        return false;
    r->wire = length;
    r->captured = r->captured < length ? r->captured : length;
    return true;
}

void td_endpoint_set_ipv4(struct td_endpoint *e, const uint8_t *ipv4)
{
    memset(e->address, 0, 10);
    memset(e->address + 10, 0xFF, 2);
    memcpy(e->address + 12, ipv4, 4);
}

static enum td_packet_kind read_ipv4(struct rest *r, struct td_segment *out)
{
    const uint8_t *p = r->p;
    size_t head;

    if (r->captured < 20)
        return TD_PACKET_SNAPPED;
    head = (size_t)(p[0] & 15) * 4;
    if (p[0] >> 4 != 4 || head < 20 || (be16(p + 2) && be16(p + 2) < head))
        return TD_PACKET_BAD;
    if (!cut_to(r, be16(p + 2)))
        return TD_PACKET_BAD;
    if (be16(p + 6) & 0x3FFF) /* more fragments, or an offset */
        return TD_PACKET_FRAGMENT;
    if (p[9] != PROTOCOL_TCP)
        return TD_PACKET_NOT_TCP;
    td_endpoint_set_ipv4(&out->from, p + 12);
    td_endpoint_set_ipv4(&out->to, p + 16);
    return skip(r, head) ? TD_PACKET_TCP : TD_PACKET_SNAPPED;
}

/* Step over an extension header. Returns the next one's number, -1: snapped. */
static int skip_extension(struct rest *r, int type)
{
    const uint8_t *p = r->p;
    size_t n;

    if (r->captured < 8)
        return -1;
    n = type == 51 ? ((size_t)p[1] + 2) * 4 : ((size_t)p[1] + 1) * 8; /* 51: authentication, in words of 4 */
    return skip(r, n) ? p[0] : -1;
}

static enum td_packet_kind read_ipv6(struct rest *r, struct td_segment *out)
{
    const uint8_t *p = r->p;
    int next, i;

    if (r->captured < 40)
        return TD_PACKET_SNAPPED;
    if (p[0] >> 4 != 6 || !cut_to(r, be16(p + 4) ? (size_t)be16(p + 4) + 40 : 0))
        return TD_PACKET_BAD;
    next = p[6];
    memcpy(out->from.address, p + 8, 16);
    memcpy(out->to.address, p + 24, 16);
    skip(r, 40);
    for (i = 0; i < MAX_EXTENSIONS && (next == 0 || next == 43 || next == 51 || next == 60); i++)
        next = skip_extension(r, next);
    if (next == 44)
        return TD_PACKET_FRAGMENT;
    return next < 0 ? TD_PACKET_SNAPPED : next == PROTOCOL_TCP ? TD_PACKET_TCP : TD_PACKET_NOT_TCP;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static enum td_packet_kind read_tcp(struct rest *r, struct td_segment *out)
{
    const uint8_t *p = r->p;
    size_t head;

    if (r->captured < 20)
        return r->wire < 20 ? TD_PACKET_BAD : TD_PACKET_SNAPPED;
    head = (size_t)(p[12] >> 4) * 4;
    if (head < 20 || head > r->wire)
        return TD_PACKET_BAD;
    out->from.port = be16(p);
    out->to.port = be16(p + 2);
    out->seq = be32(p + 4);
    out->ack = be32(p + 8);
    out->flags = p[13];
    if (!skip(r, head))
        return TD_PACKET_SNAPPED;
    if (r->wire > 1 << 24) /* more than any packet has */
        return TD_PACKET_BAD;
    out->data = r->p;
    out->len = (uint32_t)r->captured;
    out->wire_len = (uint32_t)r->wire;
    return TD_PACKET_TCP;
}

enum td_packet_kind td_packet_read(int link, const uint8_t *p, size_t captured, size_t wire,
                                   struct td_segment *out)
{
    struct rest r = {p, captured, wire < captured ? captured : wire};
    const int type = read_link(link, &r);
    enum td_packet_kind kind;

    memset(out, 0, sizeof *out);
    if (type < 0)
        return TD_PACKET_SNAPPED;
    if (type != TYPE_IPV4 && type != TYPE_IPV6)
        return TD_PACKET_NOT_IP;
    kind = type == TYPE_IPV4 ? read_ipv4(&r, out) : read_ipv6(&r, out);
    return kind == TD_PACKET_TCP ? read_tcp(&r, out) : kind;
}
