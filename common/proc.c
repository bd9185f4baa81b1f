/* proc.c - child processes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

extern char **environ;

static void clear_cloexec(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags >= 0)
        fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC);
}

/* In the child, after fork: only async-signal-safe calls. On failure errno goes through the pipe. */
static void exec_child(const struct td_proc_options *o, char **env, int report, pid_t parent)
{
    sigset_t none;
    int in = o->stdin_fd, e;
    const int *k;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (o->ends_with_us && (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent))
        _exit(126); /* it has ended already */
    if (o->own_group)
        setpgid(0, 0);
    if (in < 0)
        in = open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    if (o->stdout_fd >= 0)
        dup2(o->stdout_fd, STDOUT_FILENO);
    if (o->stderr_fd >= 0)
        dup2(o->stderr_fd, STDERR_FILENO);
    for (k = o->keep_fds; k && *k >= 0; k++)
        clear_cloexec(*k);
    execvpe(o->argv[0], o->argv, env);
    e = errno;
    if (write(report, &e, sizeof e) < 0)
        _exit(126);
    _exit(127);
}

static char **merged_env(char *const *extra)
{
    size_t have = 0, add = 0, n = 0, i, j;
    char **env;

    while (environ[have])
        have++;
    while (extra && extra[add])
        add++;
    env = calloc(have + add + 1, sizeof *env);
    if (!env)
        return NULL;
    for (i = 0; i < have; i++) {
        for (j = 0; j < add; j++) {
            size_t len = strcspn(extra[j], "=") + 1;

            if (!strncmp(environ[i], extra[j], len))
                break;
        }
        if (j == add)
            env[n++] = environ[i];
    }
    for (j = 0; j < add; j++)
        env[n++] = extra[j];
    return env;
}

int td_proc_start(struct td_proc *p, const struct td_proc_options *o, struct td_error *err)
{
    int report[2], e = 0;
    char **env = merged_env(o->extra_env);
    ssize_t got;
    pid_t parent = getpid(), pid;

    *p = (struct td_proc){.own_group = o->own_group};
    if (!env)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", o->argv[0]);
    if (pipe2(report, O_CLOEXEC)) {
        free(env);
        return td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    }
    pid = fork();
    if (pid == 0) {
        close(report[0]);
        exec_child(o, env, report[1], parent);
    }
    free(env);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return td_fail(err, TD_EIO, "fork: %s", strerror(errno));
    }
    if (o->own_group)
        setpgid(pid, pid);
    do
        got = read(report[0], &e, sizeof e);
    while (got < 0 && errno == EINTR);
    close(report[0]);
    if (got > 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return td_fail(err, e == ENOENT ? TD_ENOTFOUND : TD_EIO, "%s: cannot start: %s", o->argv[0], strerror(e));
    }
    p->pid = pid;
    return TD_OK;
}

int td_proc_wait(struct td_proc *p, int timeout_ms, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + (int64_t)timeout_ms * TD_NS_PER_MS;

    while (p->pid > 0) {
        pid_t r = waitpid(p->pid, &p->status, timeout_ms < 0 ? 0 : WNOHANG);

        if (r == p->pid) {
            p->pid = 0;
            return TD_OK;
        }
        if (r < 0 && errno != EINTR)
            return td_fail(err, TD_EIO, "waitpid: %s", strerror(errno));
        if (timeout_ms >= 0 && r == 0) {
            if (td_clock_mono_ns() >= until)
                return TD_ETIMEOUT;
            td_clock_sleep_until(td_clock_mono_ns() + 2 * TD_NS_PER_MS);
        }
    }
    return TD_OK;
}

void td_proc_end(struct td_proc *p, int grace_ms)
{
    pid_t target = p->own_group ? -p->pid : p->pid;

    if (p->pid <= 0)
        return;
    kill(target, SIGTERM);
    if (td_proc_wait(p, grace_ms, NULL) == TD_ETIMEOUT) {
        kill(target, SIGKILL);
        td_proc_wait(p, -1, NULL);
    }
}

const char *td_proc_describe(int status, char *out, size_t n)
{
    if (WIFEXITED(status))
        snprintf(out, n, "exit %d", WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        snprintf(out, n, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(out, n, "status 0x%x", status);
    return out;
}

void td_proc_catch_file_limit(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

void td_proc_give_way(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10); /* of a thread, on Linux */
}
