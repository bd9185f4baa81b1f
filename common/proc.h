/* proc.h - child processes: start, wait with a deadline, end.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_PROC_H
#define TD_COMMON_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

struct td_proc {
    pid_t pid;        /* 0: not running */
    int status;       /* as waitpid gave it, once ended */
    bool own_group;
};

struct td_proc_options {
    char *const *argv;         /* argv[0] looked up in PATH unless it holds a slash */
    char *const *extra_env;    /* "NAME=value", NULL-terminated, added to ours; NULL for none */
    int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null for stdin, inherited for the others */
    const int *keep_fds;       /* further descriptors to inherit, -1-terminated; NULL for none */
    bool own_group;            /* a process group of its own, ended as a whole */
};

/* A program that cannot be executed is a failure here, with errno's reason, not a child that exits 127. */
int td_proc_start(struct td_proc *p, const struct td_proc_options *opt, struct td_error *err);
/* timeout_ms < 0 waits for ever. 0 = ended, p->status set; TD_ETIMEOUT; TD_EIO. */
int td_proc_wait(struct td_proc *p, int timeout_ms, struct td_error *err);
/* SIGTERM, then SIGKILL after grace_ms; waits. Does nothing when not running. */
void td_proc_end(struct td_proc *p, int grace_ms);
/* "exit 3", "killed by signal 11 (Segmentation fault)" */
const char *td_proc_describe(int status, char *out, size_t n);

/* Let this thread give way to others (nice 10): what works beside a server that is being measured. A server whose threads meet at
 * barriers is slowed as a whole by whoever takes one of its cores. */
void td_proc_give_way(void);

#endif
