/* fetch.h - one HTTP request at a time, for probing a server.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_FETCH_H
#define TD_WIRE_FETCH_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/error.h"

#define TD_HTTP_REPLY_MAX ((size_t)16 << 20)

struct td_http_reply {
    int status;               /* 0: there was no answer */
    char content_type[128], redirect[256]; /* redirect: where to, as a whole URL; it is not followed */
    struct td_buf body;
    bool as_it_came;          /* asked for by the caller: leave the body's secrets in it */
    bool unseen;              /* the request failed for what this machine lacks: files, memory, ports */
};
#define TD_HTTP_REPLY_INIT {0, "", "", TD_BUF_INIT(TD_HTTP_REPLY_MAX), false, false}

/* GET the url, or POST the body as application/json when it is not NULL. The answer is appended to
 * reply->body, up to TD_HTTP_REPLY_MAX bytes; initialise the reply with TD_HTTP_REPLY_INIT, release
 * it with td_buf_release(&reply->body). The values of headers, wherever the server repeats them, are
 * overwritten in all that is handed out (format/redact_values.h): before anybody cuts it. TD_OK whatever the HTTP status; TD_EIO: not reachable;
 * TD_ETIMEOUT; TD_ELIMIT: the answer is too long; TD_EPROTO: it is no HTTP. */
int td_http_fetch(const char *url, const char *const *headers, const char *body, size_t body_len,
                  int timeout_ms, struct td_http_reply *reply, struct td_error *err);
/* Overwrite the values of headers in a reply's body that was fetched as it came. TD_ENOMEM, TD_ELIMIT. */
int td_http_hide_body(const char *const *headers, struct td_http_reply *reply, struct td_error *err);

#endif
