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
#include "common/proc_keeper.h"

#define FAMILY_GRACE_MS 10000 /* for the descendants, when we are gone */

extern char **environ;

/* Let the program that the child becomes have the descriptor. */
static bool hand_on(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    return flags >= 0 && !fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC);
}

/* The child's standard streams, and what it is to keep. */
static bool set_descriptors(const struct td_proc_options *o)
{
    int in = o->stdin_fd >= 0 ? o->stdin_fd : open("/dev/null", O_RDONLY);
    const int *k;

    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || (o->stdout_fd >= 0 && dup2(o->stdout_fd, STDOUT_FILENO) < 0) ||
        (o->stderr_fd >= 0 && dup2(o->stderr_fd, STDERR_FILENO) < 0))
        return false;
    for (k = o->keep_fds; k && *k >= 0; k++)
        if (!hand_on(*k))
            return false;
    return true;
}

/* What goes through the pipe of a start: the pid of the child, from its keeper, or why it could not
 * be executed. */
struct report { int pid, error; };

/* In the child, after fork: only async-signal-safe calls. On failure errno goes through the pipe. */
static void exec_child(const struct td_proc_options *o, char **env, int report, pid_t parent)
{
    sigset_t none;
    struct report failed = {0};

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (o->ends_with_us && (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent))
        _exit(126); /* it has ended already */
    if (o->own_group)
        setpgid(0, 0);
    if (set_descriptors(o))
        execvpe(o->argv[0], o->argv, env);
    failed.error = errno;
    if (write(report, &failed, sizeof failed) < 0)
        _exit(126);
    _exit(127);
}

static void close_life(struct td_proc *p)
{
    if (p->life >= 0)
        close(p->life);
    p->life = -1;
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

/* In the keeper, after fork: start the child, then keep it. */
static void __attribute__((noreturn))
run_keeper(const struct td_proc_options *o, char **env, int report, int life)
{
    const pid_t keeper = getpid();    /* asked in the child, it could be gone already */
    struct report r = {0};

    td_proc_keeper_begin();
    r.pid = fork();
    if (r.pid == 0) {
        struct td_proc_options child = *o;

        child.ends_with_us = true; /* should the keeper be killed */
        exec_child(&child, env, report, keeper);
    }
    if (r.pid < 0)
        r = (struct report){0, errno};
    else
        setpgid(r.pid, r.pid);
    if (write(report, &r, sizeof r) < 0 || r.pid <= 0) {
        if (r.pid > 0)
            kill(-r.pid, SIGKILL);    /* nobody knows of it */
        _exit(126);
    }
    td_proc_keep(r.pid, life, FAMILY_GRACE_MS);
}

int td_proc_start(struct td_proc *p, const struct td_proc_options *o, struct td_error *err)
{
    int report[2], life[2] = {-1, -1}, e = 0;
    char **env = merged_env(o->extra_env);
    struct report r;
    ssize_t got;
    pid_t parent = getpid(), pid, child;

    *p = (struct td_proc){.own_group = o->own_group, .life = -1};
    if (!env)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", o->argv[0]);
    if (pipe2(report, O_CLOEXEC)) {
        free(env);
        return td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    }
    if (o->ends_with_family && pipe2(life, O_CLOEXEC)) {
        free(env);
        close(report[0]);
        close(report[1]);
        return td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    }
    pid = fork();
    if (pid == 0) {
        close(report[0]);
        if (o->ends_with_family) {
            close(life[1]);
            run_keeper(o, env, report[1], life[0]);
        }
        exec_child(o, env, report[1], parent);
    }
    free(env);
    close(report[1]);
    if (life[0] >= 0)
        close(life[0]);
    p->life = life[1];
    if (pid < 0) {
        close(report[0]);
        close_life(p);
        return td_fail(err, TD_EIO, "fork: %s", strerror(errno));
    }
    if (o->own_group && !o->ends_with_family)
        setpgid(pid, pid);
    child = o->ends_with_family ? 0 : pid;
    while ((got = read(report[0], &r, sizeof r)) > 0 || (got < 0 && errno == EINTR)) {
        if (got == sizeof r && r.error)
            e = r.error;
        else if (got == sizeof r)
            child = r.pid;
    }
    close(report[0]);
    if (e || !child) {
        close_life(p);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return td_fail(err, e == ENOENT ? TD_ENOTFOUND : TD_EIO, "%s: cannot start: %s", o->argv[0], strerror(e ? e : ECHILD));
    }
    p->pid = child;
    p->keeper = o->ends_with_family ? pid : 0;
    return TD_OK;
}

int td_proc_wait(struct td_proc *p, int timeout_ms, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + (int64_t)timeout_ms * TD_NS_PER_MS;

    while (p->pid > 0) {
        const pid_t awaited = p->keeper ? p->keeper : p->pid;
        pid_t r = waitpid(awaited, &p->status, timeout_ms < 0 ? 0 : WNOHANG);

        if (r == awaited) {
            p->pid = p->keeper = 0;
            close_life(p);
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
