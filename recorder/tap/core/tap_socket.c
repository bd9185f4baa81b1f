/* tap_socket.c - the tap's socket: where it lies, who may connect, one message in or out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_socket.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/tap/core/tap_environ.h"

#define MOST_SOCKETS 10000             /* names of the folder that are looked at */
#define SOCKET_PATH_MAX sizeof((struct sockaddr_un *)0)->sun_path

static char path[SOCKET_PATH_MAX];
static pid_t path_pid;                /* the process that made it */
/* Both are complete: the end of the process reads them in another thread. */
static _Atomic bool has_path;

/* ---- descriptors ----------------------------------------------------------------------------- */

struct tap_own_fd tap_own_fd(int fd)
{
    struct stat st;

    return (struct tap_own_fd){fd, fd >= 0 && !fstat(fd, &st) ? st.st_ino : 0};
}

bool tap_own_fd_is_ours(struct tap_own_fd f)
{
    struct stat st;

    return f.fd >= 0 && !fstat(f.fd, &st) && S_ISSOCK(st.st_mode) && st.st_ino == f.ino;
}

void tap_own_fd_close(struct tap_own_fd *f)
{
    if (tap_own_fd_is_ours(*f))
        close(f->fd);
    f->fd = -1;
}

/* ---- listening ------------------------------------------------------------------------------- */

static bool runtime_folder(char *dir, size_t n)
{
    char base[SOCKET_PATH_MAX];
    struct stat st;

    tap_environ_get("TD_TAP_DIR", dir, n);
    tap_environ_get("XDG_RUNTIME_DIR", base, sizeof base);
    if (!dir[0] && base[0] && snprintf(dir, n, "%s/tapedeck", base) >= (int)n)
        return false;
    if (!dir[0])
        snprintf(dir, n, "/tmp/tapedeck-%u", (unsigned)geteuid());
    if (mkdir(dir, 0700) && errno != EEXIST)
        return false;
    return !lstat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

/* Does nobody listen at the socket any more? Its process is not there, and a connection is refused:
 * a process of another container has a number that means nothing here. */
static bool is_stale(const struct sockaddr_un *a, pid_t pid)
{
    int fd;
    bool refused;

    if (kill(pid, 0) == 0 || errno != ESRCH)
        return false;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    refused = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

/* Remove the sockets of processes that ended without exit (_exit, a kill). */
static void remove_stale_sockets(const char *dir)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    DIR *d = opendir(dir);
    const struct dirent *e;
    int pid, end, looked = 0;

    while (d && looked++ < MOST_SOCKETS && (e = readdir(d))) {
        end = 0;
        if (sscanf(e->d_name, "tap-%9d.sock%n", &pid, &end) != 1 || !end || e->d_name[end] ||
            pid <= 0 ||
            snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", dir, e->d_name) >=
                (int)sizeof a.sun_path)
            continue;
        if (is_stale(&a, pid))
            unlink(a.sun_path);
    }
    if (d)
        closedir(d);
}

bool tap_socket_listen(struct tap_own_fd *listener)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[sizeof a.sun_path];
    int fd;

    if (!runtime_folder(dir, sizeof dir) ||
        snprintf(a.sun_path, sizeof a.sun_path, "%s/tap-%d.sock", dir, (int)getpid()) >=
            (int)sizeof a.sun_path)
        return false;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    remove_stale_sockets(dir);
    unlink(a.sun_path);               /* of a process that had our pid before */
    if (bind(fd, (struct sockaddr *)&a, sizeof a)) {
        close(fd);
        return false;
    }
    if (chmod(a.sun_path, 0600) || listen(fd, 4)) {
        unlink(a.sun_path);
        close(fd);
        return false;
    }
    *listener = tap_own_fd(fd);
    memcpy(path, a.sun_path, sizeof path);
    path_pid = getpid();
    atomic_store(&has_path, true);
    return true;
}

void tap_socket_forget(void)
{
    atomic_store(&has_path, false);
}

__attribute__((destructor)) static void remove_socket(void)
{
    if (atomic_load(&has_path) && path_pid == getpid())
        unlink(path);
}

bool tap_socket_is_welcome(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) &&
           (who.uid == geteuid() || who.uid == 0);
}

pid_t tap_socket_peer_pid(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) ? 0 : who.pid;
}

bool tap_socket_hung_up(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) > 0;        /* POLLHUP and POLLERR come unasked */
}

/* ---- messages -------------------------------------------------------------------------------- */

void tap_socket_send(int fd, const struct tap_msg *m)
{
    if (send(fd, m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        shutdown(fd, SHUT_RDWR);      /* the next poll() reports it */
}

/* The first descriptor of one control message; the others are closed. */
static void take_descriptors(const struct cmsghdr *c, int *passed)
{
    size_t i, n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                      ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                      : 0;

    for (i = 0; i < n; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (*passed < 0)
            *passed = fd;
        else
            close(fd);
    }
}

ssize_t tap_socket_receive(int fd, struct tap_msg *m, int *passed)
{
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int) * 4)]; } control;
    struct iovec iov = {m, sizeof *m};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c;

    *passed = -1;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -1 : 0;
    for (c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
        take_descriptors(c, passed);
    return n;
}
