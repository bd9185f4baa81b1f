/* proc.h - start child processes, wait for them with a deadline, end them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_PROC_H
#define TD_COMMON_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

struct td_proc {
    pid_t pid;        /* 0: not running */
    pid_t keeper;     /* the process that stands between (proc_keeper.h); 0: none */
    int life;         /* with a keeper: the end of a pipe that only we hold */
    int status;       /* as waitpid gave it, once ended */
    bool own_group;
};

struct td_proc_options {
    char *const *argv;         /* argv[0] looked up in PATH unless it holds a slash */
    char *const *extra_env;    /* "NAME=value", NULL-terminated, added to ours; NULL for none */
    int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null for stdin, inherited for the others */
    const int *keep_fds;       /* further descriptors to inherit, -1-terminated; NULL for none */
    bool own_group;            /* a process group of its own, ended as a whole */
    bool ends_with_us;         /* gets SIGTERM when the thread that starts it ends, however it does */
    bool ends_with_family;     /* a keeper ends the child and all its descendants, be they in sessions of
                                  their own, when this process ends, however it does; and what is left
                                  of them when the child ends. With own_group only. */
};

/* Start a child. A program that cannot be executed is an error here, with errno's text, not a child
 * that exits with 127. */
int td_proc_start(struct td_proc *p, const struct td_proc_options *opt, struct td_error *err);
/* Wait for the end of the child; timeout_ms < 0: for ever. 0: it ended, p->status is set;
 * TD_ETIMEOUT; TD_EIO. */
int td_proc_wait(struct td_proc *p, int timeout_ms, struct td_error *err);
/* End the child: SIGTERM, then SIGKILL after grace_ms; wait. Does nothing when it is not
 * running. */
void td_proc_end(struct td_proc *p, int grace_ms);
/* Describe a wait status: "exit 3", "killed by signal 11 (Segmentation fault)". Returns out. */
const char *td_proc_describe(int status, char *out, size_t n);

/* Have a write beyond the limit of a file's size (ulimit -f) fail with EFBIG, where it would end
 * the process by SIGXFSZ. Every program of ours calls this first. Children start without it. */
void td_proc_catch_file_limit(void);

/* Lower the priority of this thread (nice 10), so that it does not disturb a server that is being
 * measured: a server whose threads meet at barriers slows down as a whole when another thread uses
 * one of its cores. */
void td_proc_give_way(void);

#endif
