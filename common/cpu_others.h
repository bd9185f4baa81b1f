/* cpu_others.h - how much of this machine's processors other programs took while a server was timed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Times of two servers can be compared where the machine was equally free for both. What others took is the machine's busy time, less
 * that of this process and of the server, each with its descendants. It counts whatever was not idle, so also other virtual machines
 * (steal time) and other containers. The idle time is what the kernel counts exactly; its busy time is a sample at each tick.
 * Everything is read before and after, in the folder of the kernel's files: nothing runs meanwhile.
 *
 * Where two servers take turns (common/turns.h), what the other server and its client do in their turns is no matter, and what the
 * other server does in ours is: a server that computes while nobody asks it slows the other one. The CPU times of its processes are
 * read where turns change. */
#ifndef TD_COMMON_CPU_OTHERS_H
#define TD_COMMON_CPU_OTHERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct td_cpu_others {
    double cores;      /* that others took, on average */
    int of;            /* cores of the machine */
    double waited;     /* share of the time in which some program waited for a core, the server's own included; -1: not known */
    char unknown[160]; /* why it is not known; "": it is */
};

#define TD_CPU_OTHER_MAX 64 /* processes of the other server */

/* What was read before. The caller keeps it, and need not release it. */
struct td_cpu_watch {
    const char *proc;
    int port, cores;
    int64_t at_ns;
    double idle_s, counted_s, waited_s, ours_s; /* since the machine, or the process, began; waited -1: not known */
    char unknown[160];
    struct {                   /* of the other server; port 0: there is none, or it is on another machine */
        int port, n;           /* processes */
        pid_t client;          /* the process that asks it */
        clockid_t clock[TD_CPU_OTHER_MAX]; /* of each process */
        double was_s, busy_s;  /* CPU time: when our turn began; in our turns */
        int64_t began_ns, turns_ns;
    } other;
};

/* Begin before the first request, with the server idle.
 *   url : of the server; on another machine nothing is known */
void td_cpu_watch_begin(struct td_cpu_watch *w, const char *url);
/* The same where another server takes turns with this one.
 *   other_url : of that server
 *   client : the process that asks it: our parent, or a child */
void td_cpu_watch_begin_beside(struct td_cpu_watch *w, const char *url, const char *other_url, pid_t client);
/* Our turn begins, or ends. */
void td_cpu_watch_turn(struct td_cpu_watch *w, bool ours);
void td_cpu_watch_end(const struct td_cpu_watch *w, struct td_cpu_others *out);
/* The same, of another folder than /proc, and at a given time. proc is borrowed until the end. */
void td_cpu_watch_begin_at(struct td_cpu_watch *w, const char *url, const char *proc, int64_t now_ns);
void td_cpu_watch_begin_beside_at(struct td_cpu_watch *w, const char *url, const char *other_url, pid_t client, const char *proc,
                                  int64_t now_ns);
void td_cpu_watch_turn_at(struct td_cpu_watch *w, bool ours, int64_t now_ns);
void td_cpu_watch_end_at(const struct td_cpu_watch *w, int64_t now_ns, struct td_cpu_others *out);

#endif
