/* proc_keeper.c - a small process between us and a child, which ends the child's whole family.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/proc_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 8192       /* processes that are looked at */
#define PAUSE_MS 20

struct process { pid_t pid, parent; bool ours; };

/* ---- who is of the family ---------------------------------------------------------------------- */

/* A number in decimal digits; -1: it is none. */
static pid_t number(const char *s)
{
    long n = 0;

    if (*s < '0' || *s > '9')
        return -1;
    for (; *s >= '0' && *s <= '9' && n < 1 << 24; s++)
        n = n * 10 + (*s - '0');
    return *s ? -1 : (pid_t)n;
}

/* The parent of a process, by /proc/PID/stat: "71 (a name) S 1 ...". -1: it is gone. */
static pid_t parent_of(const char *pid)
{
    char path[40] = "/proc/", text[512], *p = path + 6;
    ssize_t n, i;
    pid_t parent = 0;
    int fd;

    while (*pid && p < path + 20)
        *p++ = *pid++;
    for (i = 0; i < 6; i++)
        p[i] = "/stat"[i];
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    for (i = n - 1; i >= 0 && text[i] != ')'; i--)
        ;
    if (n < 0 || i < 0)
        return -1;
    for (i += 4; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        parent = parent * 10 + (text[i] - '0');
    return parent;
}

static int list_processes(struct process *all)
{
    char names[8192];
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    long got, at;

    while (fd >= 0 && (got = syscall(SYS_getdents64, fd, names, sizeof names)) > 0)
        for (at = 0; at < got;) {
            const struct { uint64_t ino, off; unsigned short len; unsigned char type; char name[]; }
                *e = (const void *)(names + at);
            const pid_t pid = number(e->name);

            if (pid > 0 && n < MOST)
                all[n++] = (struct process){pid, parent_of(e->name), false};
            at += e->len;
        }
    if (fd >= 0)
        close(fd);
    return n;
}

/* Send the signal to all descendants of this process. */
static void signal_family(int sig)
{
    static struct process all[MOST];
    const pid_t self = getpid();
    int n = list_processes(all), i, k;
    bool more = true;

    while (more) {
        more = false;
        for (i = 0; i < n; i++)
            for (k = 0; !all[i].ours && k < n; k++)
                if (all[i].parent == self || (all[k].ours && all[k].pid == all[i].parent))
                    more = all[i].ours = true;
    }
    for (i = 0; i < n; i++)
        if (all[i].ours)
            kill(all[i].pid, sig);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Collect what has ended. False: no process of the family is left. */
static bool reap(pid_t child, bool *ended, int *status)
{
    int s;
    pid_t pid;

    while ((pid = waitpid(-1, &s, WNOHANG)) > 0)
        if (pid == child) {
            *ended = true;
            *status = s;
        }
    return pid == 0 || errno != ECHILD;
}

/* Keep the pipe alone, as descriptor 3: a lock or a terminal that we hold must not live on here. */
static void close_others(int life)
{
    int i;

    if (life != 3)
        dup2(life, 3);
    for (i = 0; i < 3; i++)
        close(i);
    open("/dev/null", O_RDWR); /* the three that every program has */
    open("/dev/null", O_RDWR);
    open("/dev/null", O_RDWR);
    if (!syscall(SYS_close_range, 4u, ~0u, 0u))
        return;
    for (i = 4; i < 65536; i++)
        close(i);
}

/* Wait in short turns: SIGCHLD may be lost to a handler that was inherited. False: we are gone. */
static bool parent_lives(int ms)
{
    struct pollfd p = {.fd = 3, .events = POLLIN};

    return poll(&p, 1, ms) <= 0 || !(p.revents & (POLLHUP | POLLERR | POLLIN));
}

static void __attribute__((noreturn)) end_as(int status)
{
    const struct rlimit no_core = {0, 0};
    sigset_t all;

    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    setrlimit(RLIMIT_CORE, &no_core); /* there is one already */
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    kill(getpid(), WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

void td_proc_keeper_begin(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, SIG_DFL);
}

void td_proc_keep(pid_t child, int life, int grace_ms)
{
    static const int IGNORED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGTSTP};
    bool ended = false, family = true;
    int status = 0;
    int64_t until;
    unsigned i;

    setpgid(0, 0); /* a Ctrl-C at the terminal is not for us */
    for (i = 0; i < sizeof IGNORED / sizeof *IGNORED; i++)
        signal(IGNORED[i], SIG_IGN);
    close_others(life);
    prctl(PR_SET_NAME, "tapedeck-keeper");
    while (family && !ended && parent_lives(PAUSE_MS))
        family = reap(child, &ended, &status);
    until = now_ms() + (ended ? 0 : grace_ms);
    if (!ended)
        signal_family(SIGTERM);
    while ((family = reap(child, &ended, &status))) {
        const struct timespec pause = {0, PAUSE_MS * 1000000};

        if (ended || now_ms() >= until)
            signal_family(SIGKILL);
        nanosleep(&pause, NULL);
    }
    end_as(status);
}
