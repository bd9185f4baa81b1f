/* plain_pcap.h - read the records of a usual pcap file, several at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * libpcap reads each packet with two calls of fread(), which takes longer than to look into it. Files that tcpdump wrote on
 * a machine like this one are read here, as long as their records are whole and of a usual size. All others, and what comes
 * behind the first other record, is left to libpcap, which knows more and says what is wrong. */
#ifndef TD_WIRE_CAPTURE_PLAIN_PCAP_H
#define TD_WIRE_CAPTURE_PLAIN_PCAP_H

#include <stdbool.h>

#include "wire/capture/packets.h"

struct td_plain_pcap;
/*   fd   : of a regular file, borrowed; its offset is neither used nor changed
 *   name : for messages; borrowed
 * NULL: the file is not such a one, or there is no memory for the buffer. */
struct td_plain_pcap *td_plain_pcap_open(int fd, const char *name);
void td_plain_pcap_close(struct td_plain_pcap *p);
/* 1: *out is the next packet, valid until the next call; 0: libpcap goes on at td_plain_pcap_offset(); TD_EIO: a read failed,
 * and the sentence is libpcap's. */
int td_plain_pcap_next(struct td_plain_pcap *p, struct td_packet *out, struct td_error *err);
int64_t td_plain_pcap_offset(const struct td_plain_pcap *p);

#endif
