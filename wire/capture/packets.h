/* packets.h - packets of an interface or of a file, by libpcap.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Files are pcap or pcapng, with times in micro- or nanoseconds, as tcpdump, dumpcap and Wireshark write
 * them. Built without libpcap (make PCAP=0), opening fails with TD_EUNSUPPORTED. */
#ifndef TD_WIRE_CAPTURE_PACKETS_H
#define TD_WIRE_CAPTURE_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct td_packets;

struct td_packet {
    int64_t t_ns;                 /* since 1970 */
    const uint8_t *data;          /* valid until the next one is read */
    size_t captured, wire;        /* bytes at data; bytes that the packet had */
};

/* Open a capture file; "-": standard input. TD_ENOTFOUND, TD_EPROTO: no capture, or of a link layer that
 * is not known; TD_EIO: it cannot be read; TD_EUNSUPPORTED. */
int td_packets_open_file(const char *path, struct td_packets **out, struct td_error *err);
/* Listen at an interface, without changing what goes by.
 *   interface : "any", "lo", "eth0"
 *   port      : TCP packets from and to it
 * TD_EIO: it may not, and the sentence says which line grants it, or another failure; TD_ENOTFOUND;
 * TD_EUNSUPPORTED. */
int td_packets_open_live(const char *interface, uint16_t port, struct td_packets **out, struct td_error *err);
/* 1: *out is filled; 0: the file ends here, or nothing came by for a tenth of a second; < 0: nothing more
 * comes. TD_EPROTO: the file is damaged from here on; TD_EIO: it cannot be read (also where a signal broke
 * off a read), or the interface failed. */
int td_packets_next(struct td_packets *p, struct td_packet *out, struct td_error *err);
int td_packets_link(const struct td_packets *p);   /* enum td_link */
/* Packets that the kernel dropped for lack of room, of an interface; 0 of a file. */
int64_t td_packets_dropped(const struct td_packets *p);
void td_packets_close(struct td_packets *p);       /* NULL is allowed */

#endif
