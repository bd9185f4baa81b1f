/* httpd.c - listen and speak HTTP, by libmicrohttpd.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/server/httpd.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define MAX_CONNECTIONS 4096
#define CONNECTION_MEMORY ((size_t)64 << 10) /* header and chunk buffers */
#define STREAM_BLOCK ((size_t)16 << 10)      /* longest chunk; a longer event becomes several */
#define THREAD_STACK ((size_t)256 << 10)

struct td_httpd {
    struct MHD_Daemon *daemon;
    td_httpd_handler *handler;
    void *user;
};

/* ---- the socket ---------------------------------------------------------------------------------------------------- */

static int listen_at(const char *host, int *port, struct td_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char service[16], number[NI_MAXSERV];
    int fd = -1, one = 1, rc;

    snprintf(service, sizeof service, "%d", *port);
    rc = getaddrinfo(host, service, &hints, &list);
    if (rc)
        return td_fail(err, TD_EINVAL, "--host %s: %s", host, gai_strerror(rc));
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, 1024)) {
        td_fail(err, TD_EIO, "cannot listen on %s:%d: %s", host, *port, strerror(errno));
        if (fd >= 0)
            close(fd);
        freeaddrinfo(list);
        return TD_EIO;
    }
    freeaddrinfo(list);
    if (getsockname(fd, (struct sockaddr *)&bound, &len) == 0 &&
        getnameinfo((struct sockaddr *)&bound, len, NULL, 0, number, sizeof number, NI_NUMERICSERV) == 0)
        *port = atoi(number);
    return fd;
}

static int connection_fd(const struct td_call *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? (int)info->connect_fd : -1;
}

bool td_call_is_gone(const struct td_call *c)
{
    int fd = connection_fd(c);
    char byte;
    ssize_t n = fd < 0 ? 0 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* ---- answers ------------------------------------------------------------------------------------------------------- */

static void add_headers(struct td_call *c, struct MHD_Response *r, const char *content_type)
{
    const char *id = td_call_header(c, "X-Request-Id");
    unsigned char random[16] = {0};

    if (content_type)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (!id) { /* as vLLM: another id than that of the completion */
        if (getrandom(random, sizeof random, 0) < 0)
            random[0] = 1;
        for (size_t i = 0; i < sizeof random; i++)
            snprintf(c->request_id + 2 * i, 3, "%02x", random[i]);
        id = c->request_id;
    }
    MHD_add_response_header(r, "X-Request-Id", id);
}

static void queue_answer(struct td_call *c, int status, struct MHD_Response *r)
{
    if (!r) {
        td_call_drop(c);
        return;
    }
    td_log(TD_LOG_INFO, "http", "%s %s %d", c->method, c->url, status);
    c->answer = MHD_queue_response(c->connection, (unsigned)status, r);
    MHD_destroy_response(r);
}

void td_call_reply(struct td_call *c, int status, const char *content_type, const struct td_buf *body)
{
    struct MHD_Response *r = NULL;

    if (!body || !body->failed)
        r = MHD_create_response_from_buffer(body ? body->len : 0,
                                            body && body->len ? body->data : (void *)"",
                                            MHD_RESPMEM_MUST_COPY);
    if (r)
        add_headers(c, r, content_type);
    queue_answer(c, status, r);
}

void td_call_reply_json(struct td_call *c, int status, const struct td_buf *body)
{
    td_call_reply(c, status, "application/json", body);
}

void td_call_drop(struct td_call *c)
{
    c->answer = MHD_NO;
}

const char *td_call_header(const struct td_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* ---- streams ------------------------------------------------------------------------------------------------------- */

struct stream {
    td_httpd_source *source;
    void (*finish)(void *state);
    void *state;
    struct td_buf pending; /* bytes of the source that were not sent yet */
    int last;              /* result of the source */
};

static ssize_t read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
    struct stream *s = cls;
    size_t n;

    (void)pos;
    while (s->pending.len == 0 && s->last == 1)
        s->last = s->source(s->state, &s->pending);
    if (s->pending.len == 0 || s->pending.failed)
        return s->last == 0 && !s->pending.failed ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
    n = s->pending.len < max ? s->pending.len : max;
    memcpy(out, s->pending.data, n);
    td_buf_consume(&s->pending, n);
    return (ssize_t)n;
}

static void free_stream(void *cls)
{
    struct stream *s = cls;

    s->finish(s->state);
    td_buf_release(&s->pending);
    free(s);
}

void td_call_stream(struct td_call *c, td_httpd_source *source, void (*finish)(void *state), void *state)
{
    struct stream *s = calloc(1, sizeof *s);
    struct MHD_Response *r = NULL;

    if (s) {
        *s = (struct stream){.source = source, .finish = finish, .state = state, .last = 1};
        td_buf_init(&s->pending, TD_HTTPD_MAX_BODY);
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, s, free_stream);
    }
    if (!r) {
        finish(state);
        free(s);
    } else {
        add_headers(c, r, "text/event-stream; charset=utf-8");
    }
    queue_answer(c, 200, r);
}

/* ---- libmicrohttpd's side ------------------------------------------------------------------------------------------ */

static void *begin_call(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct td_call *c = calloc(1, sizeof *c);

    (void)cls;
    (void)uri;
    if (!c)
        return NULL;
    c->connection = connection;
    td_buf_init(&c->body, TD_HTTPD_MAX_BODY);
    return c;
}

static void end_call(void *cls, struct MHD_Connection *connection, void **slot, enum MHD_RequestTerminationCode code)
{
    struct td_call *c = *slot;

    (void)cls;
    (void)connection;
    (void)code;
    if (!c)
        return;
    td_buf_release(&c->body);
    free(c->url);
    free(c);
    *slot = NULL;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **slot)
{
    struct td_httpd *h = cls;
    struct td_call *c = *slot;
    struct td_buf too_long = TD_BUF_INIT(256);

    (void)connection;
    (void)version;
    if (!c)
        return MHD_NO;
    if (!c->started) {
        c->started = true;
        c->method = method;
        c->url = strdup(url);
        return c->url ? MHD_YES : MHD_NO;
    }
    if (*size > 0) {
        td_buf_add(&c->body, data, *size);
        *size = 0;
        return MHD_YES;
    }
    c->answer = MHD_NO;
    if (c->body.failed) {
        td_buf_adds(&too_long, "{\"detail\":\"Request body too large\"}");
        td_call_reply_json(c, 413, &too_long);
        td_buf_release(&too_long);
    } else {
        h->handler(h->user, c);
    }
    return c->answer == MHD_YES ? MHD_YES : MHD_NO;
}

/* Small chunks must leave at once: a delayed event is a wrong inter-token latency. */
static void on_connection(void *cls, struct MHD_Connection *connection, void **slot, enum MHD_ConnectionNotificationCode code)
{
    const struct td_call c = {.connection = connection};
    int one = 1;

    (void)cls;
    (void)slot;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        setsockopt(connection_fd(&c), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void log_mhd(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void log_mhd(void *cls, const char *fmt, va_list ap)
{
    char text[300];

    (void)cls;
    vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\n")] = 0;
    td_log(TD_LOG_INFO, "http", "libmicrohttpd: %s", text);
}

int td_httpd_open(struct td_httpd **out, const char *host, int *port, td_httpd_handler *handler, void *user, struct td_error *err)
{
    struct td_httpd *h = calloc(1, sizeof *h);
    int fd;

    *out = NULL;
    if (!h)
        return td_fail(err, TD_ENOMEM, "out of memory");
    h->handler = handler;
    h->user = user;
    fd = listen_at(host, port, err);
    if (fd < 0) {
        free(h);
        return fd;
    }
    h->daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                                     MHD_USE_POLL | MHD_USE_ERROR_LOG,
                                 0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, log_mhd,
                                 NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK,
                                 begin_call, NULL, MHD_OPTION_NOTIFY_COMPLETED, end_call, NULL,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
                                 MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK, MHD_OPTION_END);
    if (!h->daemon) {
        close(fd);
        free(h);
        return td_fail(err, TD_EIO, "libmicrohttpd cannot start");
    }
    *out = h;
    return TD_OK;
}

void td_httpd_close(struct td_httpd *h)
{
    if (!h)
        return;
    MHD_stop_daemon(h->daemon);
    free(h);
}
