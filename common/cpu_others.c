/* cpu_others.c - how much of this machine's processors other programs took while a server was timed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/cpu_others.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/processes.h"

#define ROUNDING_S 0.03      /* times are whole ticks of 10 ms: of the machine, of us, of the server */
#define UNCOUNTED 0.25       /* where all times of the machine miss so much of its time, its file is not the kernel's own */
#define CHECKED_FROM_S 0.5   /* in less, ticks are too coarse for that */

/* ---- the machine ------------------------------------------------------------------------------ */

/* Sum up the first line of PROC/stat, and count the cores. False: there is no such file. */
static bool read_machine(struct td_cpu_watch *w)
{
    const double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    unsigned long long t[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
    char path[320], line[512];
    bool found = false;
    FILE *f;
    int i;

    snprintf(path, sizeof path, "%.256s/stat", w->proc);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && !strncmp(line, "cpu", 3))
        if (line[3] != ' ')
            w->cores++;
        else
            found = sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) == 8;
    if (f)
        fclose(f);
    for (i = 0; i < 8; i++)
        w->counted_s += (double)t[i] * tick_s;
    w->idle_s = (double)(t[3] + t[4]) * tick_s;
    return found && w->cores > 0;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=10419555", in us. */
static double read_waited(const char *proc)
{
    char path[320];
    double us = -1;
    FILE *f;

    snprintf(path, sizeof path, "%.256s/pressure/cpu", proc);
    f = fopen(path, "re");
    if (f && fscanf(f, "some avg10=%*f avg60=%*f avg300=%*f total=%lf", &us) != 1)
        us = -1;
    if (f)
        fclose(f);
    return us < 0 ? -1 : us / 1e6;
}

/* ---- this process and the server -------------------------------------------------------------- */

/* Programs that answer for a server that is elsewhere: it is no descendant of theirs. */
static bool is_forwarder(const char *name)
{
    static const char *const known[] = {"docker-proxy", "rootlessport", "slirp4netns", "pasta", "gvproxy", "ssh",
                                        "socat",        "kubectl",      "nginx",       "haproxy", "envoy", "caddy"};
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(name, known[i], strlen(known[i])))
            return true;
    return false;
}

/* Mark the processes of the server on this port. */
static void mark_server(struct td_cpu_watch *w, struct td_process *all, size_t n, int port)
{
    static const char *const why[] = {[TD_LISTENER_NONE] = "no process of this machine listens on the server's port",
                                      [TD_LISTENER_TOO_MANY] = "too many sockets listen on the server's port",
                                      [TD_LISTENER_DENIED] = "the server belongs to another user",
                                      [TD_LISTENER_HIDDEN] = "the server's process is hidden from us (a container?)"};
    const enum td_listener found = td_processes_mark_port(w->proc, all, n, port);
    size_t i;

    if (found != TD_LISTENER_FOUND)
        snprintf(w->unknown, sizeof w->unknown, "%s", why[found]);
    for (i = 0; i < n; i++)
        if (all[i].in && is_forwarder(all[i].name))
            snprintf(w->unknown, sizeof w->unknown, "%s answers for the server, whose process is not known", all[i].name);
}

static void mark_ours(struct td_cpu_watch *w, struct td_process *all, size_t n)
{
    size_t i;

    mark_server(w, all, n, w->port);
    if (w->other.port)
        mark_server(w, all, n, w->other.port);
    for (i = 0; i < n; i++)
        all[i].in |= all[i].pid == getpid() || (w->other.client && all[i].pid == w->other.client);
    td_processes_mark_descendants(all, n);
}

/* The clocks of the other server's processes. */
static void find_other(struct td_cpu_watch *w)
{
    size_t n, i;
    struct td_process *all = td_processes_list(w->proc, &n);

    if (all && n <= TD_PROCESSES_MAX) {
        mark_server(w, all, n, w->other.port);
        td_processes_mark_descendants(all, n);
    }
    for (i = 0; all && i < n && n <= TD_PROCESSES_MAX; i++) {
        if (!all[i].in)
            continue;
        if (w->other.n == TD_CPU_OTHER_MAX) {
            snprintf(w->unknown, sizeof w->unknown, "the other server has more than %d processes", TD_CPU_OTHER_MAX);
            break;
        }
        if (clock_getcpuclockid(all[i].pid, &w->other.clock[w->other.n]) == 0)
            w->other.n++;
    }
    free(all);
}

/* The CPU time of those processes that still run. */
static double other_s(const struct td_cpu_watch *w)
{
    struct timespec t;
    double s = 0;
    int i;

    for (i = 0; i < w->other.n; i++)
        if (clock_gettime(w->other.clock[i], &t) == 0)
            s += (double)t.tv_sec + (double)t.tv_nsec / TD_NS_PER_S;
    return s;
}

static void read_ours(struct td_cpu_watch *w)
{
    size_t n, i;
    struct td_process *all = td_processes_list(w->proc, &n);

    if (!all || n > TD_PROCESSES_MAX)
        snprintf(w->unknown, sizeof w->unknown, "%s", all ? "there are too many processes" : "processes cannot be listed");
    else
        mark_ours(w, all, n);
    for (i = 0; all && i < n; i++)
        w->ours_s += all[i].in ? (double)all[i].ticks / (double)sysconf(_SC_CLK_TCK) : 0;
    free(all);
}

/* ---- both ends -------------------------------------------------------------------------------- */

/* The machine is read next to what is timed, and processes outside of that: to read them takes time, in which the server is idle. */
static void read_all(struct td_cpu_watch *w, bool ours_first)
{
    if (ours_first)
        read_ours(w);
    w->waited_s = read_waited(w->proc);
    if (!read_machine(w))
        snprintf(w->unknown, sizeof w->unknown, "%.40s/stat does not tell how busy the machine is", w->proc);
    if (!ours_first)
        read_ours(w);
}

void td_cpu_watch_begin_beside_at(struct td_cpu_watch *w, const char *url, const char *other_url, pid_t client, const char *proc,
                                  int64_t now_ns)
{
    *w = (struct td_cpu_watch){.proc = proc, .port = td_local_port(url), .at_ns = now_ns};
    w->other.port = other_url ? td_local_port(other_url) : 0;
    if (w->other.port == w->port) /* the same server: there is no other */
        w->other.port = 0;
    w->other.client = client;
    if (!w->port) {
        snprintf(w->unknown, sizeof w->unknown, "the server is on another machine");
        return;
    }
    if (w->other.port)
        find_other(w);
    read_all(w, true);
}

void td_cpu_watch_begin_at(struct td_cpu_watch *w, const char *url, const char *proc, int64_t now_ns)
{
    td_cpu_watch_begin_beside_at(w, url, NULL, 0, proc, now_ns);
}

void td_cpu_watch_turn_at(struct td_cpu_watch *w, bool ours, int64_t now_ns)
{
    if (ours) {
        w->other.was_s = other_s(w);
        w->other.began_ns = now_ns;
    } else if (w->other.began_ns) {
        w->other.busy_s += other_s(w) - w->other.was_s;
        w->other.turns_ns += now_ns - w->other.began_ns;
        w->other.began_ns = 0;
    }
}

void td_cpu_watch_end_at(const struct td_cpu_watch *w, int64_t now_ns, struct td_cpu_others *out)
{
    struct td_cpu_watch end = {.proc = w->proc, .port = w->port};
    double beside = 0;
    const double took_s = (double)(now_ns - w->at_ns) / TD_NS_PER_S;
    double all_s;

    end.other.port = w->other.port;
    end.other.client = w->other.client;
    *out = (struct td_cpu_others){.waited = -1};
    if (!*w->unknown)
        read_all(&end, false);
    if (*w->unknown || *end.unknown) {
        snprintf(out->unknown, sizeof out->unknown, "%s", *w->unknown ? w->unknown : end.unknown);
        return;
    }
    all_s = took_s * end.cores;
    if (took_s >= CHECKED_FROM_S && fabs(end.counted_s - w->counted_s - all_s) > all_s * UNCOUNTED) {
        snprintf(out->unknown, sizeof out->unknown, "%.40s/stat does not count this machine's time", w->proc);
        return;
    }
    out->of = end.cores;
    if (w->other.turns_ns > 0)
        beside = w->other.busy_s / ((double)w->other.turns_ns / TD_NS_PER_S);
    if (took_s > 0)
        out->cores = fmin(fmax(all_s - (end.idle_s - w->idle_s) - (end.ours_s - w->ours_s) - ROUNDING_S, 0) / took_s + beside, end.cores);
    if (w->waited_s >= 0 && end.waited_s >= w->waited_s && took_s > 0)
        out->waited = fmin((end.waited_s - w->waited_s) / took_s, 1);
}

void td_cpu_watch_begin(struct td_cpu_watch *w, const char *url)
{
    td_cpu_watch_begin_at(w, url, "/proc", 0);
    w->at_ns = td_clock_mono_ns();
}

void td_cpu_watch_begin_beside(struct td_cpu_watch *w, const char *url, const char *other_url, pid_t client)
{
    td_cpu_watch_begin_beside_at(w, url, other_url, client, "/proc", 0);
    w->at_ns = td_clock_mono_ns();
}

void td_cpu_watch_turn(struct td_cpu_watch *w, bool ours)
{
    td_cpu_watch_turn_at(w, ours, td_clock_mono_ns());
}

void td_cpu_watch_end(const struct td_cpu_watch *w, struct td_cpu_others *out)
{
    td_cpu_watch_end_at(w, td_clock_mono_ns(), out);
}
