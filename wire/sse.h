/* sse.h - parse server-sent events from bytes that come in any pieces.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lines end with LF, CRLF or CR; an event ends with a blank line
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html). Several "data:" lines of one
 * event are joined by "\n". Comments and unknown fields are skipped. One addition: llama.cpp's
 * "error: {…}" line makes the event an error, and so does "event: error", with data or without. */
#ifndef TD_WIRE_SSE_H
#define TD_WIRE_SSE_H

#include <stdint.h>

#include "common/buf.h"

#define TD_SSE_MAX_EVENT ((size_t)16 << 20)

struct td_sse_event {
    const char *data; size_t len; /* NUL-terminated too; valid during the call */
    const char *name;             /* of "event:", "" without */
    bool error;                   /* its data came in an "error:" line, or this is its name */
};
typedef void td_sse_fn(void *arg, const struct td_sse_event *ev);

struct td_sse {
    struct td_buf line, data, name;
    bool error, has_data, after_cr, begun;
    bool overflow;                /* this event exceeds the maximum: skip to its end */
    int64_t events, dropped, comments;
    td_sse_fn *fn; void *arg;
};
void td_sse_init(struct td_sse *s, td_sse_fn *fn, void *arg);
void td_sse_release(struct td_sse *s);
void td_sse_feed(struct td_sse *s, const char *bytes, size_t n);
/* Bytes of an unfinished event; 0: the stream ended between events. */
size_t td_sse_pending(const struct td_sse *s);
/* Is the unfinished event this one? A server may leave out the blank line, or the end of the line, behind
 * the last event. */
bool td_sse_ends_with(const struct td_sse *s, const char *data);

#endif
