/* client.c - libcurl's multi interface over epoll: every byte is stamped where libcurl reports it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "wire/curl_setup.h"
#include "wire/http.h"
#include "wire/open_files.h"
#include "wire/recorded_connections.h"
#include "wire/transfer_error.h"

#define SWEEP_NS (50 * TD_NS_PER_MS) /* between two checks of `stop`, and the least between two for overdue transfers */
#define LATE_NS TD_NS_PER_S          /* libcurl ends a transfer at its total timeout; so much later we do */

struct transfer {
    struct td_client *client;
    CURL *easy;
    uint32_t stream;
    void *user;
    int64_t connection;        /* as in td_client_request */
    bool last_of_connection;
    struct curl_slist *header; /* this request's own, followed by the client's; NULL: none */
    int64_t start_ns;
    int64_t last_byte_ns;     /* either way */
    int64_t last_ns;          /* the same, but for comments of an event stream */
    bool in_line, in_comment; /* of the body */
    bool in_head, interim;    /* header lines came, and no empty line yet; those of a 1xx answer */
    bool in_answer;           /* the body has begun */
    bool streamed;            /* Content-Type: text/event-stream */
    int64_t head_bytes, body_bytes; /* received, framing included */
    char refused[160];        /* why this answer is read no further; "": it is */
    bool unwatched;           /* refused because this machine cannot watch the socket */
    int no_socket;            /* errno of socket() */
    unsigned no_memory;       /* td_curl_no_memory() before the request */
    struct transfer *prev, *next;
    char why[CURL_ERROR_SIZE];
};

struct td_client {
    struct td_client_options opt;
    CURLM *multi;
    int epoll, timer;
    int due;                  /* a timer for the end of run(): epoll's own timeout has whole milliseconds */
    int64_t due_ns;           /* what it is set to; 0: never set */
    struct curl_slist *headers;
    struct transfer *live;    /* doubly linked */
    CURL *spare[64]; int n_spare;
    int n_live;
    int64_t whole_bytes;      /* body_bytes of all answers in flight that are not streamed */
    bool any_refused;
    int64_t overdue_at_ns;    /* when overdue transfers are looked for next */
    struct td_recorded_connections connections;
};

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

static int64_t max_answer_bytes(const struct td_client *c)
{
    return c->opt.max_answer_bytes ? c->opt.max_answer_bytes : TD_CLIENT_MAX_ANSWER;
}

static void refuse(struct transfer *t, const char *fmt, int64_t bytes)
{
    snprintf(t->refused, sizeof t->refused, fmt, (long long)(bytes >> 20));
    t->client->any_refused = true;
}

static bool is_event_stream(const char *line, size_t n)
{
    static const char type[] = "text/event-stream";
    size_t i;

    if (n < 14 || strncasecmp(line, "Content-Type:", 13) != 0)
        return false;
    for (i = 13; i < n && strchr(" \t\r\n", line[i]); i++) /* it may be folded */
        ;
    return n - i >= sizeof type - 1 && !strncasecmp(line + i, type, sizeof type - 1);
}

/* Count received bytes, and refuse the answer when they are too many. What is not streamed is held
 * in memory until it is complete; a stream is not, but for the answer's own tokens. */
static void count_received(struct transfer *t, bool header, const char *data, size_t n)
{
    struct td_client *c = t->client;
    const int64_t whole = TD_HTTP_MAX_WHOLE, max = max_answer_bytes(c);

    if (header) {
        t->streamed |= !t->in_answer && is_event_stream(data, n);
        t->head_bytes += (int64_t)n;
        if (t->head_bytes > TD_CLIENT_MAX_HEAD)
            refuse(t, "the headers of the answer are longer than %lld MiB", TD_CLIENT_MAX_HEAD);
        return;
    }
    t->in_answer = true;
    t->body_bytes += (int64_t)n;
    if (t->body_bytes > max)
        refuse(t, "the answer is longer than %lld MiB, the most that is read (--max-body)", max);
    if (t->streamed)
        return;
    c->whole_bytes += (int64_t)n;
    if (t->body_bytes > whole)
        refuse(t, "the answer is longer than %lld MiB and not streamed", whole);
    else if (c->whole_bytes > TD_CLIENT_MAX_WHOLE_SUM)
        refuse(t, "the answers in flight that are not streamed are longer than %lld MiB together",
               TD_CLIENT_MAX_WHOLE_SUM);
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
    if (*t->refused)
        return 0;
    if (rec.dir == TD_WIRE_RECEIVED)
        count_received(t, type == CURLINFO_HEADER_IN, data, n);
    rec.t_ns = t->last_byte_ns = td_clock_mono_ns();
    if (type != CURLINFO_DATA_IN)
        t->last_ns = rec.t_ns;
    if (n && t->client->opt.sink)
        t->client->opt.sink(t->client->opt.sink_arg, &rec);
    return 0;
}

/* Content was found, in a line that is no comment: what is the state at the end of these bytes? Returns true. */
static bool follow_last_line(struct transfer *t, const char *data, size_t n)
{
    size_t i = n;

    while (i && data[i - 1] != '\n' && data[i - 1] != '\r')
        i--;
    if (i) {
        t->in_line = i < n;
        t->in_comment = i < n && data[i] == ':';
    }
    return true;
}

/* Does this piece of a body hold more than comments, lines that begin with a colon? Servers and
 * proxies send these in an event stream to keep a connection open, also when no answer will come. */
static bool has_content(struct transfer *t, const char *data, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (data[i] == '\n' || data[i] == '\r') {
            t->in_line = t->in_comment = false;
            continue;
        }
        t->in_comment |= !t->in_line && data[i] == ':';
        t->in_line = true;
        if (!t->in_comment)
            break;
    }
    if (i == n)
        return false;
    return follow_last_line(t, data + i, n - i);
}

/* The bytes went to the sink in on_debug; here chunks are unpacked. */
static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;

    if (has_content(t, data, size * n))
        t->last_ns = t->last_byte_ns;
    return size * n;
}

/* ---- libcurl <-> epoll --------------------------------------------------------------------------------------------- */

/* epoll does not take the socket, so no byte would ever be noticed. finish_all_refused() ends
 * the transfer, for libcurl must not be called from its callback. */
static void note_unwatched(CURL *easy, int why)
{
    struct transfer *t = NULL;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
    if (!t || *t->refused) /* NULL: libcurl's own, to close a connection */
        return;
    t->unwatched = true;
    snprintf(t->refused, sizeof t->refused, "this machine cannot watch one more socket (epoll): %s",
             strerror(why));
    t->client->any_refused = true;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct td_client *c = arg;
    struct epoll_event ev = {.data.fd = fd};

    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(c->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    ev.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (epoll_ctl(c->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) &&
        epoll_ctl(c->epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev))
        note_unwatched(easy, errno);
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

static int watch_timer(struct td_client *c, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

int td_client_new(const struct td_client_options *opt, struct td_client **out, struct td_error *err)
{
    struct td_client *c = calloc(1, sizeof *c);

    *out = NULL;
    td_curl_init();
    if (!c)
        return td_fail(err, TD_ENOMEM, "out of memory for the HTTP client");
    c->opt = *opt;
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    c->due = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    c->multi = curl_multi_init();
    if (c->epoll < 0 || c->timer < 0 || c->due < 0 || !c->multi || td_curl_add_headers(&c->headers, opt->headers) ||
        watch_timer(c, c->timer) || watch_timer(c, c->due)) {
        int why = errno;
        char limit[256];

        td_open_files_explain(why, 1, limit, sizeof limit);
        td_fail(err, TD_EIO, "cannot set up the HTTP client: %s", *limit ? limit : strerror(why));
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
    c->whole_bytes -= t->streamed ? 0 : t->body_bytes;
}

static void transfer_free(struct transfer *t)
{
    struct td_client *c = t->client;

    unlink_transfer(t);
    curl_multi_remove_handle(c->multi, t->easy);
    if (t->connection)
        td_recorded_connections_done(&c->connections, t->connection, t->last_of_connection, t->easy);
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
    td_recorded_connections_release(&c->connections);
    curl_slist_free_all(c->headers);
    if (c->epoll >= 0)
        close(c->epoll);
    if (c->timer >= 0)
        close(c->timer);
    if (c->due >= 0)
        close(c->due);
    free(c);
}

static void set_transfer(struct transfer *t, const struct td_client_request *req)
{
    const struct td_client_options *o = &t->client->opt;

    if (req->header && (t->header = curl_slist_append(NULL, req->header)))
        t->header->next = t->client->headers;
    td_curl_set_common(t->easy, req->url, t->header ? t->header : t->client->headers, t->why,
                       &t->no_socket);
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    curl_easy_setopt(t->easy, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(t->easy, CURLOPT_DEBUGFUNCTION, on_debug);
    curl_easy_setopt(t->easy, CURLOPT_DEBUGDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(o->connect_timeout_ms ? o->connect_timeout_ms : 10000));
    curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, (long)o->own_connections);
    curl_easy_setopt(t->easy, CURLOPT_FORBID_REUSE, (long)(o->own_connections || req->last_of_connection));
    curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)o->total_timeout_ms);
    if (strcmp(req->method, "GET")) {
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body_len);
        curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, req->body ? req->body : "");
        if (strcmp(req->method, "POST"))
            curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, req->method);
    }
}

/* Did libcurl lack memory since this request began? Whose allocation failed is not known, so that no
 * failure since then is the server's. */
static bool lacked_memory(const struct transfer *t)
{
    return td_curl_no_memory() != t->no_memory;
}

int td_client_start(struct td_client *c, const struct td_client_request *req, struct td_error *err)
{
    struct transfer *t;
    CURLMcode added;

    if (c->n_live >= TD_CLIENT_MAX_IN_FLIGHT)
        return td_fail(err, TD_ELIMIT, "more than %d requests in flight", TD_CLIENT_MAX_IN_FLIGHT);
    t = calloc(1, sizeof *t);
    if (!t)
        return td_fail(err, TD_ENOMEM, "out of memory for a request");
    t->client = c;
    t->no_memory = td_curl_no_memory();
    t->easy = c->n_spare ? c->spare[--c->n_spare] : curl_easy_init();
    if (!t->easy) {
        free(t);
        return td_fail(err, TD_ENOMEM, "out of memory for a request");
    }
    curl_easy_reset(t->easy);
    t->stream = req->stream;
    t->user = req->user;
    t->start_ns = t->last_ns = t->last_byte_ns = td_clock_mono_ns();
    set_transfer(t, req);
    if (req->connection > 0 && !td_recorded_connections_use(&c->connections, req->connection, t->easy)) {
        t->connection = req->connection;
        t->last_of_connection = req->last_of_connection;
    }
    t->next = c->live;
    if (c->live)
        c->live->prev = t;
    c->live = t;
    c->n_live++;
    /* what libcurl was told is not whole where it found no memory for a copy */
    added = lacked_memory(t) ? CURLM_OUT_OF_MEMORY : curl_multi_add_handle(c->multi, t->easy);
    if (added) {
        transfer_free(t);
        return td_fail(err, TD_EIO, "libcurl does not take a request: %s", curl_multi_strerror(added));
    }
    return TD_OK;
}

int td_client_in_flight(const struct td_client *c)
{
    return c->n_live;
}

bool td_client_has(const struct td_client *c, uint32_t stream)
{
    const struct transfer *t = c->live;

    while (t && t->stream != stream)
        t = t->next;
    return t != NULL;
}

/* ---- the ends of transfers ------------------------------------------------------------------------------------------ */

static void finish_transfer(struct transfer *t, const char *kind, const char *error)
{
    struct td_client *c = t->client;
    struct td_client_done done = {.stream = t->stream, .user = t->user, .kind = kind, .t_ns = td_clock_mono_ns()};
    long status = 0;

    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    done.http_status = (int)status;
    done.no_files = t->no_socket == EMFILE || t->no_socket == ENFILE;
    if (kind)
        snprintf(done.error, sizeof done.error, "%s", error);
    transfer_free(t);
    if (c->opt.done)
        c->opt.done(c->opt.done_arg, &done);
}

static void finish_by_code(struct transfer *t, CURLcode rc)
{
    const struct td_client *c = t->client;
    const bool whole_time = c->opt.total_timeout_ms &&
                            td_clock_mono_ns() - t->start_ns >= c->opt.total_timeout_ms * TD_NS_PER_MS;
    struct td_transfer_error e;
    struct td_transfer_state at = {.in_head = !t->in_answer, .no_memory = lacked_memory(t)};
    long why_errno = 0;

    at.total_ms = whole_time ? c->opt.total_timeout_ms : 0;
    curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &why_errno);
    at.why_errno = td_transfer_errno_is_ours(t->no_socket) ? t->no_socket : (int)why_errno;
    td_transfer_error(rc, t->why, &at, &e);
    if (e.kind)
        td_open_files_explain(t->no_socket, c->n_live, t->why, sizeof t->why);
    finish_transfer(t, e.kind, t->no_socket && *t->why ? t->why : e.words);
}

static void finish_refused(struct transfer *t)
{
    finish_transfer(t, t->unwatched ? TD_ERROR_UNSEEN : "cut", t->refused);
}

static void finish_ended(struct td_client *c)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(c->multi, &left))) {
        struct transfer *t = NULL;

        if (msg->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        if (*t->refused)
            finish_refused(t);
        else
            finish_by_code(t, msg->data.result);
    }
}

/* End the transfers whose answers are refused. */
static void finish_all_refused(struct td_client *c)
{
    struct transfer *t, *next;

    c->any_refused = false;
    for (t = c->live; t; t = next) {
        next = t->next;
        if (*t->refused)
            finish_refused(t);
    }
}

/* The total timeout is libcurl's, but its timer is lost where it finds no memory for a transfer. The look at all transfers is
 * dear with hundreds of streams, so that a long limit is checked less often: to a twentieth of it, and to a second. */
static void finish_overdue(struct td_client *c, int64_t now)
{
    const int64_t limit = (c->opt.idle_timeout_ms ? c->opt.idle_timeout_ms : 300000) * TD_NS_PER_MS,
                  pause = limit / 20 > TD_NS_PER_S ? TD_NS_PER_S : limit / 20,
                  total = c->opt.total_timeout_ms * TD_NS_PER_MS;
    struct transfer *t, *next;
    char why[80];

    if (now < c->overdue_at_ns)
        return;
    c->overdue_at_ns = now + pause;
    for (t = c->live; t; t = next) {
        next = t->next;
        if (now - t->last_ns <= limit && !(total && now - t->start_ns > total + LATE_NS))
            continue;
        if (lacked_memory(t) || now - t->last_ns <= limit) {
            finish_by_code(t, CURLE_OPERATION_TIMEDOUT);
            continue;
        }
        snprintf(why, sizeof why, "no %s for %.1f s",
                 now - t->last_byte_ns > limit ? "byte" : "event, only comments,",
                 (double)limit / TD_NS_PER_S);
        finish_transfer(t, "timeout", why);
    }
}

void td_client_cancel_all(struct td_client *c, const char *why)
{
    while (c->live)
        finish_transfer(c->live, "cut", why);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------- */

static void read_timer(int fd)
{
    uint64_t ticks;

    if (read(fd, &ticks, sizeof ticks) < 0)
        return; /* it stays due, and what is due is done all the same */
}

/* Wake up at this time, to the microsecond. */
static void set_due(struct td_client *c, int64_t until_ns)
{
    const struct itimerspec at = {{0, 0}, {until_ns / TD_NS_PER_S, until_ns % TD_NS_PER_S}};

    if (until_ns <= 0 || until_ns == INT64_MAX || until_ns == c->due_ns)
        return;
    c->due_ns = until_ns;
    timerfd_settime(c->due, TFD_TIMER_ABSTIME, &at, NULL);
}

static void handle_event(struct td_client *c, const struct epoll_event *ev)
{
    int running, flags;

    if (ev->data.fd == c->due) {
        read_timer(c->due);
        return;
    }
    if (ev->data.fd == c->timer) {
        read_timer(c->timer);
        curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        return;
    }
    flags = (ev->events & EPOLLIN ? CURL_CSELECT_IN : 0) | (ev->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
            (ev->events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_IN | CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(c->multi, ev->data.fd, flags, &running);
}

int td_client_run_down(struct td_client *c, int left, int64_t until_ns, struct td_error *err)
{
    struct epoll_event evs[64];
    int64_t now = td_clock_mono_ns(), sweep = now + SWEEP_NS;
    int n, i;

    set_due(c, until_ns);
    while (c->n_live > left) {
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
        if (c->any_refused)
            finish_all_refused(c);
        now = td_clock_mono_ns();
        if (now >= sweep) {
            finish_overdue(c, now);
            sweep = now + SWEEP_NS;
        }
    }
    return TD_OK;
}

int td_client_run(struct td_client *c, int64_t until_ns, struct td_error *err)
{
    return td_client_run_down(c, 0, until_ns, err);
}
