/* first_bytes.h - which protocol is spoken, by the first bytes of a message or of a segment.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All functions take n bytes, at least one. */
#ifndef TD_WIRE_CAPTURE_FIRST_BYTES_H
#define TD_WIRE_CAPTURE_FIRST_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Are these the first bytes of the text, or is the text the first of these? */
bool td_first_bytes_are(const uint8_t *data, size_t n, const char *text);
/* Of a request of HTTP/1.1? */
bool td_first_bytes_are_request(const uint8_t *data, size_t n);
/* Of a record of SSL 3 or any TLS (RFC 8446, 5.1), also in mid-connection? One byte is enough of a handshake. */
bool td_first_bytes_are_tls(const uint8_t *data, size_t n);
/* Of HTTP/2, also in mid-connection: its preface, or frames up to the last byte? */
bool td_first_bytes_are_http2(const uint8_t *data, size_t n);
/* Of one of these two? */
bool td_first_bytes_are_foreign(const uint8_t *data, size_t n);

#endif
