/* httpd.h - listen and speak HTTP, by libmicrohttpd: one thread per connection, which may block.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_HTTPD_H
#define TD_DEMO_SERVER_HTTPD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

#define TD_HTTPD_MAX_BODY ((size_t)16 << 20)

/* One request, and the answer that the handler gives it. */
struct td_call {
    void *connection;         /* struct MHD_Connection */
    char *url;                /* path without the query */
    const char *method;
    struct td_buf body;
    int answer;               /* for libmicrohttpd; set by the functions below */
    bool started;
    char request_id[48];      /* X-Request-Id of the answer, if the request had none */
};

/* Handle a call, once its body is complete. Must call one of the answering functions. */
typedef void td_httpd_handler(void *user, struct td_call *call);

/* Append the next bytes of a stream (an event) to out. 1: more will come; 0: these were the last; <
 * 0: close the connection after these. May block, but must check td_call_is_gone(). */
typedef int td_httpd_source(void *state, struct td_buf *out);

struct td_httpd;
/* port 0 takes any; *port is the real one. host: a name or an address. */
int td_httpd_open(struct td_httpd **out, const char *host, int *port, td_httpd_handler *handler,
                  void *user, struct td_error *err);
/* Wait for the threads of all connections. Whatever their handlers wait for must have ended
 * before. */
void td_httpd_close(struct td_httpd *h);

const char *td_call_header(const struct td_call *c, const char *name); /* NULL: not there */
bool td_call_is_gone(const struct td_call *c);                           /* the client has closed the connection */
/* Answer; body is copied. */
void td_call_reply(struct td_call *c, int status, const char *content_type, const struct td_buf *body);
void td_call_reply_json(struct td_call *c, int status, const struct td_buf *body);
/* Answer 200 with a chunked event stream, one chunk for each call of source; finish(state) is
 * called at its end, however it ends. */
void td_call_stream(struct td_call *c, td_httpd_source *source, void (*finish)(void *state), void *state);
void td_call_drop(struct td_call *c); /* close the connection without an answer */

#endif
