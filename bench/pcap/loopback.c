/* loopback.c - SSE traffic between two threads over the loopback, at a rate or as fast as it goes.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   loopback STREAMS RATE SECONDS
 *
 * Prints its port, and begins when a line comes in on standard input. STREAMS connections ask once each, and get RATE events a
 * second each for SECONDS, one write() an event; 0: all it can. Prints how many events it sent in how many seconds. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024 };
static const char REQUEST[] = "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":1000000,\"stream\":true}";

static int n_streams, served[MOST], asked[MOST];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void send_all(int fd, const char *s, size_t n)
{
    ssize_t k;

    for (; n; s += k, n -= (size_t)k)
        if ((k = write(fd, s, n)) <= 0)
            die("write");
}

/* The client: read what comes on all connections, and forget it. */
static void *read_streams(void *arg)
{
    static char buffer[65536];
    struct epoll_event events[MOST], one = {.events = EPOLLIN};
    int fd = epoll_create1(0), open = n_streams, i, n;

    for (i = 0; i < n_streams; i++) {
        one.data.fd = asked[i];
        epoll_ctl(fd, EPOLL_CTL_ADD, asked[i], &one);
    }
    while (open)
        for (n = epoll_wait(fd, events, MOST, -1), i = 0; i < n; i++)
            if (read(events[i].data.fd, buffer, sizeof buffer) <= 0) {
                close(events[i].data.fd);
                open--;
            }
    close(fd);
    return arg;
}

static void connect_all(int listener, const struct sockaddr_in *at)
{
    char request[512], read_there[512];
    const int on = 1;
    int i, n;

    for (i = 0; i < n_streams; i++) {
        asked[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(asked[i], (const struct sockaddr *)at, sizeof *at) || (served[i] = accept(listener, NULL, NULL)) < 0)
            die("connect");
        setsockopt(served[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        n = snprintf(request, sizeof request, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     sizeof REQUEST - 1, REQUEST);
        send_all(asked[i], request, (size_t)n);
        if (read(served[i], read_there, sizeof read_there) != n)
            die("read");
    }
}

static void send_to_all(const char *s, size_t n)
{
    int i;

    for (i = 0; i < n_streams; i++)
        send_all(served[i], s, n);
}

static void sleep_until(double at_s)
{
    const struct timespec t = {(time_t)at_s, (long)((at_s - (double)(time_t)at_s) * 1e9)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

int main(int argc, char **argv)
{
    static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char EVENT[] = "data: {\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":\"text_completion\",\"created\":1767225600,"
                                "\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,"
                                "\"finish_reason\":null,\"stop_reason\":null}],\"usage\":null}\n\n";
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in at;
    socklen_t n_at = sizeof at;
    double rate, seconds, began, step;
    int listener = socket(AF_INET, SOCK_STREAM, 0), n, i;
    long long steps = 0;
    char chunk[1024];
    pthread_t reader;

    if (argc != 4 || (n_streams = atoi(argv[1])) < 1 || n_streams > MOST)
        return fprintf(stderr, "usage: loopback STREAMS RATE SECONDS\n"), 2;
    rate = atof(argv[2]), seconds = atof(argv[3]);
    if (bind(listener, (const struct sockaddr *)&any, sizeof any) || listen(listener, MOST) || getsockname(listener, (struct sockaddr *)&at, &n_at))
        die("listen");
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    if (getchar() == EOF)
        return 1;
    connect_all(listener, &at);
    if (pthread_create(&reader, NULL, read_streams, NULL))
        die("thread");
    n = snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n", sizeof EVENT - 1, EVENT);
    began = now_s();
    send_to_all(HEAD, sizeof HEAD - 1);
    for (step = began; step < began + seconds && now_s() < began + seconds; step += rate > 0 ? 1 / rate : 0, steps++) {
        if (rate > 0)
            sleep_until(step);
        send_to_all(chunk, (size_t)n);
    }
    printf("%lld %.3f\n", steps * n_streams, now_s() - began);
    n = snprintf(chunk, sizeof chunk, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    send_to_all(chunk, (size_t)n);
    for (i = 0; i < n_streams; i++)
        close(served[i]);
    pthread_join(reader, NULL);
    return 0;
}
