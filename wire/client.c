/* client.c - libcurl's multi interface over epoll: every byte is stamped where libcurl reports it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/clock.h"

#define SWEEP_NS (50 * TD_NS_PER_MS) /* between two checks for idle transfers and `stop` */

struct transfer {
    struct td_client *client;
    CURL *easy;
    uint32_t stream;
    void *user;
    struct curl_slist *header; /* this request's own, followed by the client's; NULL: none */
    int64_t last_ns;          /* last byte either way */
    bool in_head, interim;    /* header lines came, and no empty line yet; those of a 1xx answer */
    struct transfer *prev, *next;
    char why[CURL_ERROR_SIZE];
};

struct td_client {
    struct td_client_options opt;
    CURLM *multi;
    int epoll, timer;
    struct curl_slist *headers;
    struct transfer *live;    /* doubly linked */
    CURL *spare[64]; int n_spare;
    int n_live;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_init_once(void)
{
    curl_global_init(CURL_GLOBAL_ALL);
}

/* ---- the hot path -------------------------------------------------------------------------------------------------- */

/* Follow the header lines. Does this one begin an answer although the empty line of the interim
 * one (100, 102, 103) before it was not reported? libcurl (7.88) leaves that line out. */
static bool misses_empty_line(struct transfer *t, const char *line, size_t n)
{
    const bool first = n > 12 && !memcmp(line, "HTTP/", 5), missing = first && t->in_head && t->interim;

    if (first && (!t->in_head || t->interim))
        t->interim = line[9] == '1' && memcmp(line + 9, "101", 3) != 0;
    t->in_head = n > 2;
    return missing;
}

/* Stamp and pass on bytes. When the empty line after the headers comes in two reads, "\r" and "\n",
 * libcurl (7.88) reports the right length but points at the second read, where the body's first
 * byte follows: the line is replaced then. */
static int on_debug(CURL *easy, curl_infotype type, char *data, size_t n, void *arg)
{
    struct transfer *t = arg;
    struct td_wire rec = {.stream = t->stream, .data = (const uint8_t *)data, .len = n};
    char empty[] = "\r\n";

    (void)easy;
    if (type == CURLINFO_HEADER_IN && misses_empty_line(t, data, n))
        on_debug(easy, CURLINFO_HEADER_IN, empty, 2, arg);
    if (type == CURLINFO_HEADER_IN && n == 2 && *data == '\n')
        rec.data = (const uint8_t *)"\r\n";
    if (type == CURLINFO_HEADER_IN || type == CURLINFO_DATA_IN)
        rec.dir = TD_WIRE_RECEIVED;
    else if (type == CURLINFO_HEADER_OUT || type == CURLINFO_DATA_OUT)
        rec.dir = TD_WIRE_SENT;
    else
        return 0;
    rec.t_ns = t->last_ns = td_clock_mono_ns();
    if (n && t->client->opt.sink)
        t->client->opt.sink(t->client->opt.sink_arg, &rec);
    return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    (void)data;
    (void)arg;
    return size * n; /* on_debug had it already */
}

/* ---- libcurl <-> epoll --------------------------------------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct td_client *c = arg;
    struct epoll_event ev = {.data.fd = fd};

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(c->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    ev.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (epoll_ctl(c->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev))
        epoll_ctl(c->epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev);
    curl_multi_assign(c->multi, fd, c);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct td_client *c = arg;
    struct itimerspec at = {{0, 0}, {0, 0}};

    (void)multi;
    if (timeout_ms == 0)
        at.it_value.tv_nsec = 1;
    else if (timeout_ms > 0)
        at.it_value = (struct timespec){timeout_ms / 1000, timeout_ms % 1000 * 1000000};
    timerfd_settime(c->timer, 0, &at, NULL);
    return 0;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static int add_headers(struct td_client *c)
{
    const char *const *h;
    static const char *const ours[] = {"Content-Type: application/json", "Accept: text/event-stream, application/json",
                                       "Expect:", NULL};
    const char *const *lists[] = {ours, c->opt.headers};
    size_t i;

    for (i = 0; i < 2; i++) {
        for (h = lists[i]; h && *h; h++) {
            struct curl_slist *more = curl_slist_append(c->headers, *h);

            if (!more)
                return TD_ENOMEM;
            c->headers = more;
        }
    }
    return TD_OK;
}

int td_client_new(const struct td_client_options *opt, struct td_client **out, struct td_error *err)
{
    struct td_client *c = calloc(1, sizeof *c);
    struct epoll_event ev = {.events = EPOLLIN};

    *out = NULL;
    pthread_once(&curl_once, curl_init_once);
    if (!c)
        return td_fail(err, TD_ENOMEM, "out of memory for the HTTP client");
    c->opt = *opt;
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    c->multi = curl_multi_init();
    ev.data.fd = c->timer;
    if (c->epoll < 0 || c->timer < 0 || !c->multi || add_headers(c) || epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->timer, &ev)) {
        td_fail(err, TD_EIO, "cannot set up the HTTP client: %s", strerror(errno));
        td_client_free(c);
        return TD_EIO;
    }
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)TD_CLIENT_MAX_IN_FLIGHT);
    *out = c;
    return TD_OK;
}

static void unlink_transfer(struct transfer *t)
{
    struct td_client *c = t->client;

    if (t->prev)
        t->prev->next = t->next;
    else
        c->live = t->next;
    if (t->next)
        t->next->prev = t->prev;
    c->n_live--;
}

static void transfer_free(struct transfer *t)
{
    struct td_client *c = t->client;

    unlink_transfer(t);
    curl_multi_remove_handle(c->multi, t->easy);
    if (c->n_spare < (int)(sizeof c->spare / sizeof *c->spare))
        c->spare[c->n_spare++] = t->easy;
    else
        curl_easy_cleanup(t->easy);
    if (t->header)
        t->header->next = NULL; /* the rest belongs to the client */
    curl_slist_free_all(t->header);
    free(t);
}

void td_client_free(struct td_client *c)
{
    if (!c)
        return;
    while (c->live)
        transfer_free(c->live);
    while (c->n_spare)
        curl_easy_cleanup(c->spare[--c->n_spare]);
    curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->headers);
    if (c->epoll >= 0)
        close(c->epoll);
    if (c->timer >= 0)
        close(c->timer);
    free(c);
}

/* Set the options that all requests share. */
static void set_common(CURL *easy, const char *url, struct curl_slist *headers, char *why)
{
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tapedeck/" TD_VERSION);
#if CURL_AT_LEAST_VERSION(7, 85, 0)
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static void set_transfer(struct transfer *t, const struct td_client_request *req)
{
    const struct td_client_options *o = &t->client->opt;

    if (req->header && (t->header = curl_slist_append(NULL, req->header)))
        t->header->next = t->client->headers;
    set_common(t->easy, req->url, t->header ? t->header : t->client->headers, t->why);
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    curl_easy_setopt(t->easy, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(t->easy, CURLOPT_DEBUGFUNCTION, on_debug);
    curl_easy_setopt(t->easy, CURLOPT_DEBUGDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(o->connect_timeout_ms ? o->connect_timeout_ms : 10000));
    curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)o->total_timeout_ms);
    if (strcmp(req->method, "GET")) {
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body_len);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, req->body ? req->body : "");
        if (strcmp(req->method, "POST"))
            curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, req->method);
    }
}

int td_client_start(struct td_client *c, const struct td_client_request *req, struct td_error *err)
{
    struct transfer *t;

    if (c->n_live >= TD_CLIENT_MAX_IN_FLIGHT)
        return td_fail(err, TD_ELIMIT, "more than %d requests in flight", TD_CLIENT_MAX_IN_FLIGHT);
    t = calloc(1, sizeof *t);
    if (!t)
        return td_fail(err, TD_ENOMEM, "out of memory for a request");
    t->client = c;
    t->easy = c->n_spare ? c->spare[--c->n_spare] : curl_easy_init();
    if (!t->easy) {
        free(t);
        return td_fail(err, TD_ENOMEM, "out of memory for a request");
    }
    curl_easy_reset(t->easy);
    t->stream = req->stream;
    t->user = req->user;
    t->last_ns = td_clock_mono_ns();
    set_transfer(t, req);
    t->next = c->live;
    if (c->live)
        c->live->prev = t;
    c->live = t;
    c->n_live++;
    curl_multi_add_handle(c->multi, t->easy);
    return TD_OK;
}

int td_client_in_flight(const struct td_client *c)
{
    return c->n_live;
}

/* ---- the ends of transfers ------------------------------------------------------------------------------------------ */

static const char *error_kind(CURLcode rc)
{
    switch (rc) {
    case CURLE_OK:
        return NULL;
    case CURLE_OPERATION_TIMEDOUT:
        return "timeout";
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return "connect";
    default:
        return "cut";
    }
}

/* Describe what the server did; libcurl's texts describe what libcurl did. */
static const char *describe_failure(CURLcode rc)
{
    switch (rc) {
    case CURLE_GOT_NOTHING:
        return "the server closed the connection without an answer";
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
        return "the connection ended in the middle of the answer";
    case CURLE_SEND_ERROR:
        return "the connection ended while the request was sent";
    case CURLE_COULDNT_CONNECT:
        return "cannot connect";
    case CURLE_UNSUPPORTED_PROTOCOL:
        return "the server does not answer in HTTP";
    default:
        return curl_easy_strerror(rc);
    }
}

static void finish_transfer(struct transfer *t, const char *kind, const char *error)
{
    struct td_client *c = t->client;
    struct td_client_done done = {.stream = t->stream, .user = t->user, .kind = kind, .t_ns = td_clock_mono_ns()};
    long status = 0;

    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    done.http_status = (int)status;
    if (kind)
        snprintf(done.error, sizeof done.error, "%s", error);
    transfer_free(t);
    if (c->opt.done)
        c->opt.done(c->opt.done_arg, &done);
}

static void finish_ended(struct td_client *c)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(c->multi, &left))) {
        struct transfer *t = NULL;
        CURLcode rc = msg->data.result;
        const char *kind = error_kind(rc);
        char words[256];

        if (msg->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        if (rc == CURLE_UNSUPPORTED_PROTOCOL && !strstr(t->why, "not supported")) /* HTTP/0.9: bytes that are no HTTP */
            kind = "parse";
        snprintf(words, sizeof words, "%s%s%.180s", describe_failure(rc), *t->why ? ": " : "",
                 t->why);
        finish_transfer(t, kind, words);
    }
}

static void finish_idle(struct td_client *c, int64_t now)
{
    int64_t limit = (c->opt.idle_timeout_ms ? c->opt.idle_timeout_ms : 300000) * TD_NS_PER_MS;
    struct transfer *t, *next;
    char why[80];

    for (t = c->live; t; t = next) {
        next = t->next;
        if (now - t->last_ns <= limit)
            continue;
        snprintf(why, sizeof why, "no byte for %.1f s", (double)limit / TD_NS_PER_S);
        finish_transfer(t, "timeout", why);
    }
}

void td_client_cancel_all(struct td_client *c, const char *why)
{
    while (c->live)
        finish_transfer(c->live, "cut", why);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------- */

static void handle_event(struct td_client *c, const struct epoll_event *ev)
{
    uint64_t ticks;
    int running, flags;

    if (ev->data.fd == c->timer) {
        if (read(c->timer, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
            return;
        curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        return;
    }
    flags = (ev->events & EPOLLIN ? CURL_CSELECT_IN : 0) | (ev->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
            (ev->events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_IN | CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(c->multi, ev->data.fd, flags, &running);
}

int td_client_run(struct td_client *c, int64_t until_ns, struct td_error *err)
{
    struct epoll_event evs[64];
    int64_t now = td_clock_mono_ns(), sweep = now + SWEEP_NS;
    int n, i;

    while (c->n_live) {
        int64_t wake;

        if (c->opt.stop && *c->opt.stop)
            return td_fail(err, TD_EINTR, "interrupted");
        if (now >= until_ns)
            return TD_OK;
        wake = until_ns < sweep ? until_ns : sweep;
        n = epoll_wait(c->epoll, evs, 64, wake <= now ? 0 : (int)((wake - now + TD_NS_PER_MS - 1) / TD_NS_PER_MS));
        if (n < 0 && errno != EINTR)
            return td_fail(err, TD_EIO, "epoll_wait: %s", strerror(errno));
        for (i = 0; i < n; i++)
            handle_event(c, &evs[i]);
        finish_ended(c);
        now = td_clock_mono_ns();
        if (now >= sweep) {
            finish_idle(c, now);
            sweep = now + SWEEP_NS;
        }
    }
    return TD_OK;
}

/* ---- one request at a time ------------------------------------------------------------------------------------------ */

static size_t append_to_buf(char *data, size_t size, size_t n, void *arg)
{
    return td_buf_add(arg, data, size * n) ? 0 : size * n;
}

static int fetch_failed(CURLcode rc, const char *url, const char *why, struct td_error *err)
{
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return td_fail(err, TD_ETIMEOUT, "%s: no answer in time (%s)", url, why);
    if (rc == CURLE_WRITE_ERROR)
        return td_fail(err, TD_ELIMIT, "%s: the answer is longer than 16 MiB; is this an LLM server?", url);
    if (rc == CURLE_COULDNT_RESOLVE_HOST)
        return td_fail(err, TD_EIO, "%s: no such host; check the name in --server", url);
    if (rc == CURLE_COULDNT_CONNECT)
        return td_fail(err, TD_EIO, "%s: nobody listens there (%s); start the server, or give its address as --server HOST:PORT",
                       url, why);
    return td_fail(err, TD_EIO, "%s: %s; is this an HTTP server?", url, why);
}

int td_http_fetch(const char *url, const char *const *headers, const char *body, size_t body_len, int timeout_ms,
                  struct td_http_reply *reply, struct td_error *err)
{
    struct td_client shell = {.opt.headers = headers};
    char why[CURL_ERROR_SIZE] = "";
    const char *type = NULL;
    long status = 0;
    CURLcode rc;
    CURL *easy;

    pthread_once(&curl_once, curl_init_once);
    easy = curl_easy_init();
    if (!easy || add_headers(&shell)) {
        curl_easy_cleanup(easy);
        curl_slist_free_all(shell.headers);
        return td_fail(err, TD_ENOMEM, "out of memory for a request");
    }
    if (!reply->body.max)
        td_buf_init(&reply->body, 16u << 20);
    set_common(easy, url, shell.headers, why);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout_ms > 0 && timeout_ms < 10000 ? timeout_ms : 10000));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, append_to_buf);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &reply->body);
    if (body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body_len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    }
    rc = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    reply->status = (int)status;
    snprintf(reply->content_type, sizeof reply->content_type, "%s", type ? type : "");
    curl_easy_cleanup(easy);
    curl_slist_free_all(shell.headers);
    return rc ? fetch_failed(rc, url, *why ? why : curl_easy_strerror(rc), err) : TD_OK;
}
