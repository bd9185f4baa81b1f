/* source.c - an SSE source for clients: writes the time at which it sends an event into the event.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   source RATE [spread]
 *
 * Listens on a port of the loopback and prints it. POST /v1/completions is answered by max_tokens events, RATE a second,
 * in the form of vLLM's: the text of each is " " and CLOCK_MONOTONIC in ns, taken before write(). All streams send in the
 * same step, as servers with continuous batching do; with `spread`, in 20 steps one after the other. GET answers are what
 * `record` asks before it begins. One thread, epoll, nothing allocated for an event. At SIGTERM it says on stderr how many
 * events it sent and how many steps began late by more than a tenth of the time between two. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MOST 8192       /* file descriptors */
#define LANES 20        /* of `spread` */
#define DIGITS 19

static struct stream {
    bool open, active;
    int left;           /* events to send */
    int lane;
    size_t got; char request[16384];
    size_t kept; char unsent[65536]; /* what the socket did not take */
} streams[MOST];

static char event[512];
static size_t event_len, time_at;
static volatile sig_atomic_t stop;
static long long n_events, n_steps, n_late, n_blocked;
static int poll_fd;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void make_event(void)
{
    static const char head[] = "data: {\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1764200000,\"model\":"
                               "\"source\",\"choices\":[{\"index\":0,\"text\":\" ",
                      tail[] = "\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}],\"usage\":null}\n\n";
    const size_t body = sizeof head - 1 + DIGITS + sizeof tail - 1;
    const int before = snprintf(event, sizeof event, "%zx\r\n%s", body, head);

    time_at = (size_t)before;
    event_len = (size_t)before + (size_t)snprintf(event + before, sizeof event - (size_t)before, "%0*d%s\r\n", DIGITS, 0, tail);
}

static void write_time(void)
{
    int64_t t = now_ns();
    int i;

    for (i = DIGITS - 1; i >= 0; i--, t /= 10)
        event[time_at + (size_t)i] = (char)('0' + t % 10);
}

static void watch(int fd, uint32_t events, int how)
{
    struct epoll_event e = {.events = events, .data.fd = fd};

    epoll_ctl(poll_fd, how, fd, &e);
}

static void end(int fd)
{
    streams[fd].open = streams[fd].active = false;
    close(fd);
}

static void put(int fd, const char *data, size_t n)
{
    struct stream *s = &streams[fd];
    const ssize_t done = s->kept ? 0 : write(fd, data, n);

    if (done == (ssize_t)n)
        return;
    if (done < 0 && errno != EAGAIN) {
        end(fd);
        return;
    }
    if (done > 0)
        data += done, n -= (size_t)done;
    if (s->kept + n > sizeof s->unsent) { /* the client reads nothing */
        end(fd);
        return;
    }
    memcpy(s->unsent + s->kept, data, n);
    s->kept += n;
    n_blocked++;
    watch(fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
}

static void put_kept(int fd)
{
    struct stream *s = &streams[fd];
    const ssize_t done = write(fd, s->unsent, s->kept);

    if (done > 0) {
        memmove(s->unsent, s->unsent + done, s->kept - (size_t)done);
        s->kept -= (size_t)done;
    }
    if (!s->kept)
        watch(fd, EPOLLIN, EPOLL_CTL_MOD);
}

static void put_last(int fd, int sent)
{
    char body[300], all[400];
    int n = snprintf(body, sizeof body,
                     "data: {\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1764200000,\"model\":\"source\","
                     "\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
                     sent + 1, sent);

    n = snprintf(all, sizeof all, "%x\r\n%s\r\n0\r\n\r\n", (unsigned)n, body);
    put(fd, all, (size_t)n);
}

static void put_finish(int fd)
{
    static const char body[] = "data: {\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1764200000,\"model\":\"source\","
                               "\"choices\":[{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n";
    char all[400];
    const int n = snprintf(all, sizeof all, "%zx\r\n%s\r\n", sizeof body - 1, body);

    put(fd, all, (size_t)n);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void answer(int fd, const char *body)
{
    char all[600];
    const int n = snprintf(all, sizeof all, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                           *body ? "200 OK" : "404 Not Found", strlen(body), body);

    put(fd, all, (size_t)n);
}

static void begin(int fd, const char *body)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    static int next_lane;
    const char *most = strstr(body, "\"max_tokens\":");
    struct stream *s = &streams[fd];

    s->left = most ? atoi(most + 13) : 16;
    s->kept = 0;
    s->lane = next_lane++ % LANES;
    put(fd, head, sizeof head - 1);
    s->active = s->open;
}

static void read_request(int fd)
{
    struct stream *s = &streams[fd];
    const ssize_t n = read(fd, s->request + s->got, sizeof s->request - 1 - s->got);
    char *body, *length;

    if (n <= 0) {
        if (!n || errno != EAGAIN)
            end(fd);
        return;
    }
    s->got += (size_t)n;
    s->request[s->got] = '\0';
    body = strstr(s->request, "\r\n\r\n");
    length = strcasestr(s->request, "\r\nContent-Length:");
    if (!body || (length && s->got < (size_t)(body + 4 - s->request) + (size_t)atol(length + 17)))
        return;
    s->got = 0;
    if (!strncmp(s->request, "POST /v1/completions ", 21))
        begin(fd, body + 4);
    else if (!strncmp(s->request, "GET /v1/models ", 15))
        answer(fd, "{\"object\":\"list\",\"data\":[{\"id\":\"source\",\"object\":\"model\",\"owned_by\":\"tapedeck\"}]}");
    else
        answer(fd, "");
}

static void accept_all(int listener)
{
    int fd, one = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= MOST) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        streams[fd].open = true;
        streams[fd].active = false;
        streams[fd].got = streams[fd].kept = 0;
        streams[fd].lane = -1;
        watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int totals[MOST];

static void step(int lane)
{
    int fd;

    for (fd = 0; fd < MOST; fd++) {
        struct stream *s = &streams[fd];

        if (!s->active || (lane >= 0 && s->lane != lane))
            continue;
        if (s->left > 0) {
            write_time();
            put(fd, event, event_len);
            n_events++;
            totals[fd]++;
            s->left--;
            continue;
        }
        s->active = false;
        put_finish(fd);
        put_last(fd, totals[fd]);
        totals[fd] = 0;
    }
}

int main(int argc, char **argv)
{
    const double rate = argc > 1 ? atof(argv[1]) : 50;
    const bool spread = argc > 2;
    const int64_t every = (int64_t)(1e9 / rate / (spread ? LANES : 1));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
              timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec when = {{every / 1000000000, every % 1000000000}, {0, 0}};
    int64_t first = now_ns() + every, next = first;
    struct epoll_event got[256];

    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (listener < 0 || timer < 0 || poll_fd < 0 || !(rate > 0) || bind(listener, (struct sockaddr *)&at, sizeof at) ||
        listen(listener, 4096) || getsockname(listener, (struct sockaddr *)&at, &len)) {
        perror("source");
        return 1;
    }
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    make_event();
    when.it_value = (struct timespec){first / 1000000000, first % 1000000000};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
    watch(listener, EPOLLIN, EPOLL_CTL_ADD);
    watch(timer, EPOLLIN, EPOLL_CTL_ADD);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    while (!stop) {
        const int n = epoll_wait(poll_fd, got, 256, 1000);
        uint64_t ticks = 0;
        int i;

        for (i = 0; i < n; i++) {
            const int fd = got[i].data.fd;

            if (fd == listener)
                accept_all(listener);
            else if (fd == timer && read(timer, &ticks, sizeof ticks) == sizeof ticks) {
                n_late += now_ns() - next - (int64_t)(ticks - 1) * every > every / 10 || ticks > 1;
                next += (int64_t)ticks * every;
                n_steps++;
                step(spread ? (int)(n_steps % LANES) : -1);
            } else if (fd != timer) {
                if (got[i].events & EPOLLOUT && streams[fd].open)
                    put_kept(fd);
                if (got[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP) && streams[fd].open)
                    read_request(fd);
            }
        }
    }
    fprintf(stderr, "source: %lld events in %lld steps, %lld of these late; %lld writes that the socket did not take at once\n",
            n_events, n_steps, n_late, n_blocked);
    return 0;
}
