/* test_client.c - the recording client against a scripted server in a thread: bytes, times, failures, concurrency.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "wire/client.h"
#include "wire/fetch.h"

/* The server answers by path: /ok /chunked /parted /interim /slow-interim /cut /hang /ping /drip /empty /noise; one thread a connection. */
static int listener, port;
static atomic_int connections; /* that were accepted */
static const char INTERIM[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX: y\r\n\r\n"
                              "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                              "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nHTTP/9: 100\r\n\r\nhello";

static void say(int fd, const char *s)
{
    ssize_t n = send(fd, s, strlen(s), MSG_NOSIGNAL);

    (void)n;
}

static bool answer(int fd, const char *path) /* false: close */
{
    if (!strncmp(path, "/ok", 3)) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    } else if (!strncmp(path, "/chunked", 8)) {
        say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        td_clock_sleep_until(td_clock_mono_ns() + 30 * TD_NS_PER_MS);
        say(fd, "2\r\nde\r\n0\r\n\r\n");
    } else if (!strncmp(path, "/parted", 7)) { /* within the empty line */
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r");
        td_clock_sleep_until(td_clock_mono_ns() + 30 * TD_NS_PER_MS);
        say(fd, "\nhello");
    } else if (!strncmp(path, "/interim", 8)) {
        say(fd, INTERIM);
    } else if (!strncmp(path, "/slow-interim", 13)) {
        const char *p;

        for (p = INTERIM; *p; p++) {
            char one[2] = {*p, '\0'};

            say(fd, one);
            td_clock_sleep_until(td_clock_mono_ns() + 200000);
        }
    } else if (!strncmp(path, "/cut", 4)) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf");
        return false;
    } else if (!strncmp(path, "/hang", 5)) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf");
        td_clock_sleep_until(td_clock_mono_ns() + 1500 * TD_NS_PER_MS);
        return false;
    } else if (!strncmp(path, "/ping", 5) || !strncmp(path, "/drip", 5)) {
        int i;

        say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ndata: x\r\n1\r\n\n\r\n");
        for (i = 0; i < 60; i++) {
            say(fd, path[1] == 'd' ? "1\r\ny\r\n" : i % 2 ? "5\r\ning\n\n\r\n" : "3\r\n: p\r\n");
            td_clock_sleep_until(td_clock_mono_ns() + 25 * TD_NS_PER_MS);
        }
        return false;
    } else if (!strncmp(path, "/noise", 6)) {
        say(fd, "220 mail\r\n");
        return false;
    } else {
        return false; /* /empty */
    }
    return true;
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char b[65536], *end, *len;
    size_t have = 0, need;
    ssize_t n;

    while ((n = recv(fd, b + have, sizeof b - 1 - have, 0)) > 0) {
        have += (size_t)n;
        b[have] = '\0';
        end = strstr(b, "\r\n\r\n");
        len = strstr(b, "Content-Length: ");
        need = end ? (size_t)(end - b) + 4 + (len && len < end ? strtoul(len + 16, NULL, 10) : 0) : sizeof b;
        if (have < need)
            continue;
        if (!answer(fd, strchr(b, ' ') + 1))
            break;
        have = 0;
    }
    close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    int fd;
    pthread_t t;

    (void)arg;
    while ((fd = accept(listener, NULL, NULL)) >= 0)
        if (atomic_fetch_add(&connections, 1) >= 0 && !pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd))
            pthread_detach(t);
    return NULL;
}

static int start_server(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    pthread_t t;

    (void)state;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 512) || getsockname(listener, (struct sockaddr *)&a, &n))
        return -1;
    port = ntohs(a.sin_port);
    return pthread_create(&t, NULL, serve, NULL) ? -1 : pthread_detach(t);
}

struct seen {
    struct td_buf in[512], out[512];
    int64_t t_last[512], t_first[512];
    struct td_client_done done[512];
    int n_done;
};

static void sink(void *arg, const struct td_wire *rec)
{
    struct seen *s = arg;

    assert_true(rec->t_ns >= s->t_last[rec->stream]);
    s->t_last[rec->stream] = rec->t_ns;
    if (rec->dir == TD_WIRE_RECEIVED && !s->in[rec->stream].len)
        s->t_first[rec->stream] = rec->t_ns;
    td_buf_add(rec->dir == TD_WIRE_SENT ? &s->out[rec->stream] : &s->in[rec->stream], rec->data, rec->len);
}

static void done(void *arg, const struct td_client_done *d)
{
    struct seen *s = arg;

    s->done[d->stream] = *d;
    s->n_done++;
}

static struct seen *seen_new(void)
{
    struct seen *s = calloc(1, sizeof *s);
    int i;

    assert_non_null(s);
    for (i = 0; i < 512; i++) {
        td_buf_init(&s->in[i], 1 << 20);
        td_buf_init(&s->out[i], 1 << 20);
    }
    return s;
}

static void seen_free(struct seen *s)
{
    int i;

    for (i = 0; i < 512; i++) {
        td_buf_release(&s->in[i]);
        td_buf_release(&s->out[i]);
    }
    free(s);
}

static struct td_client *client(struct seen *s, int idle_ms, const volatile sig_atomic_t *stop)
{
    static const char *const headers[] = {"X-Test: yes", NULL};
    struct td_client_options o = {.idle_timeout_ms = idle_ms, .headers = headers, .sink = sink, .sink_arg = s, .done = done,
                                  .done_arg = s, .stop = stop};
    struct td_client *c;
    struct td_error err = {0};

    assert_int_equal(td_client_new(&o, &c, &err), TD_OK);
    return c;
}

static void start(struct td_client *c, uint32_t stream, const char *path, int to)
{
    char url[100];
    struct td_client_request r = {.stream = stream, .method = "POST", .url = url, .body = "{\"a\":1}", .body_len = 7,
                                  .header = "X-Request-Id: td-1"};
    struct td_error err = {0};

    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", to, path);
    assert_int_equal(td_client_start(c, &r, &err), TD_OK);
}

/* libcurl does not report the empty line after a 1xx answer. */
static void interim_answers_are_kept(void **state)
{
    struct seen *s = seen_new();
    struct td_client *c = client(s, 5000, NULL);

    (void)state;
    start(c, 1, "/interim", port);
    start(c, 2, "/slow-interim", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    assert_int_equal(s->n_done, 2);
    assert_string_equal(td_buf_str(&s->in[1]), INTERIM);
    assert_string_equal(td_buf_str(&s->in[2]), INTERIM);
    td_client_free(c);
    seen_free(s);
}

/* Connections made for three requests, one after the other. */
static int count_connections(bool own)
{
    struct seen *s = seen_new();
    struct td_client_options o = {.idle_timeout_ms = 5000, .own_connections = own, .sink = sink, .sink_arg = s, .done = done, .done_arg = s};
    struct td_client *c;
    struct td_error err = {0};
    const int before = atomic_load(&connections);
    uint32_t i;

    assert_int_equal(td_client_new(&o, &c, &err), TD_OK);
    for (i = 1; i <= 3; i++) {
        start(c, i, "/ok", port);
        assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
        assert_null(s->done[i].kind);
    }
    td_client_free(c);
    seen_free(s);
    return atomic_load(&connections) - before;
}

static void connections_are_kept_or_not(void **state)
{
    (void)state;
    assert_int_equal(count_connections(false), 1);
    assert_int_equal(count_connections(true), 3);
}

static void every_byte_is_kept(void **state)
{
    struct seen *s = seen_new();
    struct td_client *c = client(s, 5000, NULL);
    const char *out;

    (void)state;
    start(c, 1, "/ok", port);
    start(c, 2, "/chunked", port);
    start(c, 3, "/parted", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    assert_int_equal(s->n_done, 3);
    assert_string_equal(td_buf_str(&s->in[3]), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_string_equal(td_buf_str(&s->in[1]), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_string_equal(td_buf_str(&s->in[2]), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_true(s->t_last[2] > s->t_first[2]);
    out = td_buf_str(&s->out[1]);
    assert_memory_equal(out, "POST /ok HTTP/1.1\r\n", 19);
    assert_non_null(strstr(out, "\r\nX-Test: yes\r\n"));
    assert_non_null(strstr(out, "\r\nX-Request-Id: td-1\r\n"));
    assert_non_null(strstr(out, "\r\nContent-Type: application/json\r\n"));
    assert_null(strstr(out, "Expect"));
    assert_string_equal(out + s->out[1].len - 7, "{\"a\":1}");
    assert_null(s->done[1].kind);
    assert_int_equal(s->done[1].http_status, 200);
    td_client_free(c);
    seen_free(s);
}

/* Bytes alone do not keep a request alive: comments of an event stream, and one byte now and then. */
static void bytes_without_end(void **state)
{
    struct seen *s = seen_new();
    struct td_client_options o = {.idle_timeout_ms = 300, .total_timeout_ms = 900, .sink = sink, .sink_arg = s, .done = done,
                                  .done_arg = s};
    struct td_client *c;
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_client_new(&o, &c, &err), TD_OK);
    start(c, 0, "/ping", port);
    start(c, 1, "/drip", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    assert_int_equal(s->n_done, 2);
    assert_string_equal(s->done[0].kind, "timeout");
    assert_non_null(strstr(s->done[0].error, "only comments"));
    assert_string_equal(s->done[1].kind, "timeout");
    assert_null(strstr(s->done[1].error, "no byte"));
    td_client_free(c);
    seen_free(s);
}

static void failures_have_kinds(void **state)
{
    static const struct { const char *path, *kind, *words; } f[] = {
        {"/cut", "cut", "middle of the answer"}, {"/hang", "timeout", "no byte for 0.2 s"}, {"/empty", "cut", "without an answer"},
        {"/noise", "parse", "HTTP"}};
    struct seen *s = seen_new();
    struct td_client *c = client(s, 200, NULL);
    uint32_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        start(c, i, f[i].path, port);
    start(c, 4, "/ok", 1); /* nobody listens on port 1 */
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    assert_int_equal(s->n_done, 5);
    for (i = 0; i < 4; i++) {
        assert_non_null(s->done[i].kind);
        if (strcmp(s->done[i].kind, f[i].kind) || !strstr(s->done[i].error, f[i].words))
            fail_msg("%s: %s: %s", f[i].path, s->done[i].kind, s->done[i].error);
    }
    assert_string_equal(s->done[4].kind, "connect");
    assert_non_null(strstr(td_buf_str(&s->in[0]), "half"));
    td_client_free(c);
    seen_free(s);
}

/* Stands before that of the C library. */
static int unwatched_fd = -1;
static bool no_watch;

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
    if (no_watch && op != EPOLL_CTL_DEL) {
        unwatched_fd = fd;
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, ev);
}

/* A socket that epoll does not take is a cause of its own, not a server that is silent. */
static void a_socket_that_is_not_watched(void **state)
{
    struct seen *s = seen_new();
    struct td_client *c = client(s, 1000, NULL);

    (void)state;
    no_watch = true;
    start(c, 0, "/ok", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    no_watch = false;
    assert_true(unwatched_fd >= 0);
    assert_int_equal(s->n_done, 1);
    assert_string_equal(s->done[0].kind, TD_ERROR_UNSEEN);
    assert_non_null(strstr(s->done[0].error, "cannot watch one more socket (epoll): No space left on device"));
    start(c, 1, "/ok", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    assert_null(s->done[1].kind);
    td_client_free(c);
    seen_free(s);
}

static void many_at_once(void **state)
{
    struct seen *s = seen_new();
    struct td_client *c = client(s, 5000, NULL);
    uint32_t i, round;

    (void)state;
    for (round = 0; round < 2; round++) {
        for (i = 0; i < 200; i++)
            start(c, round * 200 + i, i % 3 ? "/ok" : "/chunked", port);
        assert_int_equal(td_client_in_flight(c), 200);
        assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    }
    assert_int_equal(s->n_done, 400);
    for (i = 0; i < 400; i++)
        assert_null(s->done[i].kind);
    td_client_free(c);
    seen_free(s);
}

static void stop_and_cancel(void **state)
{
    volatile sig_atomic_t stop = 1;
    struct seen *s = seen_new();
    struct td_client *c = client(s, 5000, &stop);
    int64_t t = td_clock_mono_ns();

    (void)state;
    start(c, 0, "/hang", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_EINTR);
    assert_int_equal(td_client_in_flight(c), 1);
    td_client_cancel_all(c, "stopped");
    assert_int_equal(td_client_in_flight(c), 0);
    assert_string_equal(s->done[0].kind, "cut");
    assert_string_equal(s->done[0].error, "stopped");
    stop = 0;
    start(c, 1, "/hang", port);
    assert_int_equal(td_client_run(c, td_clock_mono_ns() + 50 * TD_NS_PER_MS, NULL), TD_OK); /* until the deadline */
    assert_int_equal(td_client_in_flight(c), 1);
    assert_true(td_clock_mono_ns() - t < 1400 * TD_NS_PER_MS);
    td_client_free(c);
    assert_int_equal(s->n_done, 1);
    seen_free(s);
}

static void fetch(void **state)
{
    struct td_http_reply r = TD_HTTP_REPLY_INIT;
    struct td_error err = {0};
    char url[100];

    (void)state;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/ok", port);
    assert_int_equal(td_http_fetch(url, NULL, NULL, 0, 5000, &r, &err), TD_OK);
    assert_int_equal(r.status, 200);
    assert_string_equal(td_buf_str(&r.body), "hello");
    td_buf_release(&r.body);
    assert_int_equal(td_http_fetch("http://127.0.0.1:1/", NULL, NULL, 0, 5000, &r, &err), TD_EIO);
    assert_non_null(strstr(err.msg, "nobody listens"));
    memset(&err, 0, sizeof err);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/hang", port);
    assert_int_equal(td_http_fetch(url, NULL, NULL, 0, 100, &r, &err), TD_ETIMEOUT);
    td_buf_release(&r.body);
}

static bool no_handle;

/* libcurl's, which may refuse a transfer. */
CURLMcode curl_multi_add_handle(CURLM *multi, CURL *easy)
{
    static CURLMcode (*real)(CURLM *, CURL *);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "curl_multi_add_handle");
    return no_handle ? CURLM_OUT_OF_MEMORY : real(multi, easy);
}

/* A request that libcurl does not take is refused at once, and not waited for; then the client goes on. */
static void a_request_that_is_not_taken(void **state)
{
    struct seen *s = seen_new();
    struct td_client *c = client(s, 1000, NULL);
    struct td_client_request request = {.method = "POST", .body = "", .url = "http://127.0.0.1:1/ok"};
    struct td_error err = {0};

    (void)state;
    no_handle = true;
    assert_int_equal(td_client_start(c, &request, &err), TD_EIO);
    no_handle = false;
    assert_string_equal(err.msg, "libcurl does not take a request: Out of memory");
    assert_int_equal(td_client_in_flight(c), 0);
    start(c, 1, "/ok", port);
    assert_int_equal(td_client_run(c, INT64_MAX, NULL), TD_OK);
    assert_int_equal(s->n_done, 1);
    assert_null(s->done[1].kind);
    td_client_free(c);
    seen_free(s);
}

static bool no_timer;

/* Of libcurl's transfers, as they are without memory: nothing is ever due. */
int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *before)
{
    return no_timer ? 0 : (int)syscall(SYS_timerfd_settime, fd, flags, at, before);
}

/* The total timeout holds although libcurl has lost its timer; then the client goes on. */
static void a_timer_that_is_lost(void **state)
{
    struct seen *s = seen_new();
    struct td_client_options o = {.total_timeout_ms = 300, .sink = sink, .sink_arg = s, .done = done, .done_arg = s};
    struct td_client *c;
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_client_new(&o, &c, &err), TD_OK);
    no_timer = true;
    start(c, 0, "/ok", port);
    assert_int_equal(td_client_run(c, td_clock_mono_ns() + 60 * TD_NS_PER_S, NULL), TD_OK);
    no_timer = false;
    assert_int_equal(s->n_done, 1);
    assert_string_equal(s->done[0].kind, "timeout");
    assert_string_equal(s->done[0].error, "no whole answer within 0.3 s");
    td_client_free(c);
    seen_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_kept), cmocka_unit_test(connections_are_kept_or_not), cmocka_unit_test(interim_answers_are_kept), cmocka_unit_test(failures_have_kinds), cmocka_unit_test(bytes_without_end), cmocka_unit_test(many_at_once),
        cmocka_unit_test(a_socket_that_is_not_watched), cmocka_unit_test(a_timer_that_is_lost), cmocka_unit_test(a_request_that_is_not_taken), cmocka_unit_test(stop_and_cancel), cmocka_unit_test(fetch),
    };

    return cmocka_run_group_tests(tests, start_server, NULL);
}
