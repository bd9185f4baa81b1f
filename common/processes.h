/* processes.h - the processes of this machine, and those of a server: who listens on its port, and their descendants.
 * SPDX-License-Identifier: Apache-2.0
 *
 * proc is the folder of the kernel's process files, "/proc"; a test gives another one. */
#ifndef TD_COMMON_PROCESSES_H
#define TD_COMMON_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TD_PROCESSES_MAX 65536
#define TD_LISTENERS_MAX 64

struct td_process {
    pid_t pid, parent;  /* parent -1: not known */
    uint64_t ticks;     /* CPU time, also of its children that have ended, in 1/sysconf(_SC_CLK_TCK) s */
    char name[16];
    bool in;            /* it is marked */
};

/* List all processes that we can see; freed by the caller. NULL: there are none, or no memory. *n of TD_PROCESSES_MAX + 1: there are
 * more. */
struct td_process *td_processes_list(const char *proc, size_t *n);
/* Mark all descendants of marked processes. */
void td_processes_mark_descendants(struct td_process *all, size_t n);

enum td_listener {
    TD_LISTENER_FOUND,    /* one or more are marked */
    TD_LISTENER_NONE,     /* no process of this machine listens there */
    TD_LISTENER_TOO_MANY, /* more than TD_LISTENERS_MAX sockets */
    TD_LISTENER_DENIED,   /* another user's */
    TD_LISTENER_HIDDEN    /* a process that we cannot see: of another container */
};
/* Mark the processes that hold a socket which listens on this TCP port. Takes back no mark. */
enum td_listener td_processes_mark_port(const char *proc, struct td_process *all, size_t n, int port);

/* The port of "http://HOST:PORT/..." when HOST is this machine, else 0. */
int td_local_port(const char *url);

#endif
