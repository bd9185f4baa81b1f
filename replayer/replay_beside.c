/* replay_beside.c - replay on two servers at once, which are asked in turn.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/replay_beside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"

static int fail(const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "replay", "%s", err->msg);
    return td_exit_code(err->code);
}

/* The half that asks the other server. It ends with the first half, however that ends. */
static int replay_other(const char *dir, const struct td_replay_options *opt, struct td_turns *turns, pid_t parent, td_replay_one_fn *replay_one)
{
    struct td_replay_options other = *opt;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it ended before that */
        return TD_EXIT_BROKEN;
    other.server = opt->beside;
    other.output = opt->beside_output;
    other.beside = opt->server;
    other.beside_output = NULL;
    other.turns = turns;
    other.partner = parent;
    return replay_one(dir, other.output, &other);
}

/* Wait for the other half, which ends by itself; one of us that was stopped ends it. */
static int wait_for_other(pid_t pid, const volatile sig_atomic_t *stop)
{
    int status;

    if (*stop)
        kill(pid, *stop);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return TD_EXIT_BROKEN;
        else if (*stop)
            kill(pid, *stop);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    td_log(TD_LOG_ERROR, "replay", "the process that asks the other server was ended by signal %d", WTERMSIG(status));
    return TD_EXIT_BROKEN;
}

int td_replay_beside(const char *dir, const struct td_replay_options *opt, td_replay_one_fn *replay_one)
{
    struct td_replay_options one = *opt;
    struct td_turns turns[2];
    struct td_error err = {0};
    const pid_t self = getpid();
    const int first = opt->begins ? 0 : 1;
    pid_t pid;
    int code, other;

    if (td_turns_make(turns, &err))
        return fail(&err);
    turns[0].stop = turns[1].stop = opt->stop;
    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        td_fail(&err, TD_EIO, "a second process for the other server: %s", strerror(errno));
        return fail(&err);
    }
    if (pid == 0) {
        td_turns_leave(&turns[first]);
        code = replay_other(dir, opt, &turns[1 - first], self, replay_one);
        td_turns_leave(&turns[1 - first]);
        return code;
    }
    td_turns_leave(&turns[1 - first]);
    one.turns = &turns[first];
    one.partner = pid;
    code = replay_one(dir, opt->output, &one);
    td_turns_leave(&turns[first]);
    other = wait_for_other(pid, opt->stop);
    return code == TD_EXIT_USAGE || other == TD_EXIT_USAGE ? TD_EXIT_USAGE : code > other ? code : other;
}
