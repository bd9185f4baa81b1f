/* http.h - parse an HTTP/1.1 request or response from bytes that come in any pieces.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_HTTP_H
#define TD_WIRE_HTTP_H

#include <stdint.h>

#include "common/buf.h"

#define TD_HTTP_MAX_LINE ((size_t)64 << 10)
#define TD_HTTP_MAX_HEADERS 2000
#define TD_HTTP_MAX_PATH 512   /* of a path that is kept, its NUL included */
#define TD_HTTP_MAX_WHOLE ((int64_t)64 << 20) /* a body that is not streamed, which is parsed as one */

typedef void td_http_body_fn(void *arg, const char *bytes, size_t n);

enum td_http_state {
    TD_HTTP_START, TD_HTTP_HEADERS, TD_HTTP_BODY_LENGTH, TD_HTTP_BODY_CLOSE, TD_HTTP_CHUNK_SIZE, TD_HTTP_CHUNK_DATA,
    TD_HTTP_CHUNK_END, TD_HTTP_TRAILERS, TD_HTTP_DONE, TD_HTTP_BAD
};

struct td_http {
    enum td_http_state state;
    bool request;                 /* parse a request line instead of a status line */
    bool head;                    /* responses: to HEAD, so without a body; the caller sets it */
    int status;                   /* responses: 0 until known; 1xx but 101 are skipped */
    char method[24], path[TD_HTTP_MAX_PATH]; /* requests; a longer path is cut */
    char content_type[128], location[256], encoding[32];
    bool chunked;
    int64_t content_length;       /* -1: not given */
    int64_t left;                 /* of the body or the chunk */
    int64_t excess;               /* bytes after the end of the message */
    int n_headers;
    char bad[200];                /* why this is no HTTP, one sentence; "" while it is */
    struct td_buf line;
    td_http_body_fn *fn; void *arg;
};
void td_http_init(struct td_http *h, bool request, td_http_body_fn *fn, void *arg);
void td_http_release(struct td_http *h);
/* Feed n bytes. Body bytes go to fn, without framing. After TD_HTTP_BAD nothing is parsed any
 * more. */
void td_http_feed(struct td_http *h, const char *bytes, size_t n);
/* Is an answer with this status complete without a body, whatever its headers say? 101: the server
 * speaks another protocol from there on. */
bool td_http_is_bodiless(int status);
/* Is the message complete?
 *   closed : the connection was closed in order, which ends a body without a length */
bool td_http_complete(const struct td_http *h, bool closed);

#endif
