/* client.h - an HTTP/1.1 client that hands over every byte with its time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is libcurl's multi interface over epoll. libcurl's debug callback gets the bytes: header lines
 * singly, the body per socket read, framing included. There they are stamped and handed to the
 * sink; nothing is parsed on the way. Proxies of the environment are not used, redirects are not
 * followed, connections are kept alive and reused, unless each request is to have its own. Not thread-safe: one thread per client. */
#ifndef TD_WIRE_CLIENT_H
#define TD_WIRE_CLIENT_H

#include <signal.h>

#include "format/records.h"

#define TD_CLIENT_MAX_IN_FLIGHT 4096

/* What is read of a server, at most. An answer that is longer is cut off, and its end says so ("cut"
 * and a sentence). Bytes are counted as they come, chunk sizes and comments included. */
#define TD_CLIENT_MAX_HEAD ((int64_t)1 << 20)   /* header lines, those of 1xx answers included */
#define TD_CLIENT_MAX_ANSWER ((int64_t)256 << 20) /* the default of max_answer_bytes */
/* An answer that is not streamed has TD_HTTP_MAX_WHOLE at most (http.h); all in flight together: */
#define TD_CLIENT_MAX_WHOLE_SUM ((int64_t)256 << 20)

/* Called on the hot path for every record, sent or received. rec->data is valid for the call only. */
typedef void td_client_sink_fn(void *arg, const struct td_wire *rec);

struct td_client_done {
    uint32_t stream;
    void *user;               /* as given to start */
    const char *kind;         /* NULL: the HTTP exchange is complete (whatever its status); "connect", "timeout", "cut",
                                 "parse", TD_ERROR_UNSEEN */
    char error[256];          /* one sentence when kind is set */
    int http_status;          /* 0: none */
    bool no_files;            /* this machine's limit of open files was reached (open_files.h) */
    int64_t t_ns;
};
typedef void td_client_done_fn(void *arg, const struct td_client_done *done);

struct td_client_options {
    int connect_timeout_ms;   /* 0: 10 s */
    int total_timeout_ms;     /* of a request with its answer; 0: none */
    int idle_timeout_ms;      /* longest time without a byte either way, comments of an event stream
                                 aside; 0: 300 s */
    int64_t max_answer_bytes; /* of one answer, headers aside; 0: TD_CLIENT_MAX_ANSWER */
    bool own_connections;     /* a new one for each request, closed behind its answer */
    const char *const *headers; /* "Name: value" for every request, NULL-terminated, or NULL; borrowed */
    td_client_sink_fn *sink;  void *sink_arg;
    td_client_done_fn *done;  void *done_arg;
    const volatile sig_atomic_t *stop; /* set by a signal handler: run() returns TD_EINTR soon; NULL: none */
};

struct td_client;
int td_client_new(const struct td_client_options *opt, struct td_client **out, struct td_error *err);
void td_client_free(struct td_client *c);  /* cancels what is in flight, without calling done */

struct td_client_request {
    uint32_t stream;
    const char *method;       /* "POST", "GET" */
    const char *url;
    const char *body; size_t body_len; /* borrowed until done */
    int64_t connection;       /* > 0: the recorded connection that it goes over (recorded_connections.h); 0: any */
    bool last_of_connection;  /* close it behind the answer */
    const char *header;       /* one more "Name: value" for this request, or NULL; copied */
    void *user;
};
/* Put one request in flight; its bytes start to move in the next run(). */
int td_client_start(struct td_client *c, const struct td_client_request *req, struct td_error *err);
int td_client_in_flight(const struct td_client *c);
/* Is this request in flight? */
bool td_client_has(const struct td_client *c, uint32_t stream);

/* Move bytes until `until_ns` (monotonic; INT64_MAX: no limit) or until nothing is in flight, whichever comes first.
 * TD_OK, TD_EINTR (stop was set; requests stay in flight), TD_EIO. Returns at once when nothing is in flight. */
int td_client_run(struct td_client *c, int64_t until_ns, struct td_error *err);
/* The same, but return as soon as no more than `left` are in flight. */
int td_client_run_down(struct td_client *c, int left, int64_t until_ns, struct td_error *err);
/* Cancel all requests in flight. done is called for each, with kind "cut" and this sentence. */
void td_client_cancel_all(struct td_client *c, const char *why);

#endif
