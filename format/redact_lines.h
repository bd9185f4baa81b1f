/* redact_lines.h - redact one line of HTTP, of server-sent events, or a body in one piece, in place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_REDACT_LINES_H
#define TD_FORMAT_REDACT_LINES_H

#include "format/redact_http.h"

bool td_redact_is_line_end(uint8_t c);
/* Overwrite n bytes but line ends. Returns how many. */
int64_t td_redact_overwrite(uint8_t *p, size_t n);
/* Hide keys in text that is kept otherwise. */
void td_redact_kept_text(struct td_redact_http *h, char *p, size_t n);

/* Is this "HTTP/1.1 200 OK" or "POST /path HTTP/1.1"? Then note what it says. */
bool td_redact_read_start_line(struct td_redact_stream *s, struct td_redact_side *d, const char *p, size_t n);
void td_redact_start_line(struct td_redact_http *h, const struct td_redact_side *d, char *p, size_t n);
/* A line of a head or a trailer, without its line end. What it says of the body is noted in d. */
void td_redact_header_line(struct td_redact_http *h, struct td_redact_side *d, char *p, size_t n);

/* A complete body: JSON by the rules, anything else entirely. */
void td_redact_body(struct td_redact_http *h, char *p, size_t n);
/* One line of server-sent events or of JSON lines, with its line end. */
void td_redact_body_line(struct td_redact_http *h, char *p, size_t n);

#endif
