/* tap_connection.c - one connection: a tap's socket, and the memory shared with it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/tap_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/memory.h"
#include "recorder/tap_client/client_text.h"
#include "recorder/tap_client/mapped_library.h"
#include "recorder/tap_client/process_rank.h"

#define GREETING_MS 3000
#define ATTACH_MS 20000 /* a rank may have 512 MiB to map, beside others */

/* ---- messages -------------------------------------------------------------------------------- */

/* memory : a file descriptor to pass on, or -1 */
static int send_message(struct client_tap *tap, struct tap_msg *m, int memory)
{
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct iovec iov = {m, sizeof *m};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

    m->magic = TAP_MAGIC;
    m->version = TAP_VERSION;
    if (memory >= 0) {
        struct cmsghdr *c;

        h.msg_control = &control;
        h.msg_controllen = sizeof control;
        c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof memory);
        memcpy(CMSG_DATA(c), &memory, sizeof memory);
    }
    return sendmsg(tap->fd, &h, MSG_NOSIGNAL) < 0 ? TD_EIO : TD_OK;
}

static int wait_for_message(const struct client_tap *tap, int timeout_ms, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + timeout_ms * TD_NS_PER_MS;
    struct pollfd p = {tap->fd, POLLIN, 0};

    for (;;) {
        int64_t left = (until - td_clock_mono_ns()) / TD_NS_PER_MS;
        int r = poll(&p, 1, left > 0 ? (int)left : 0);

        if (r > 0)
            return TD_OK;
        if (r == 0)
            return td_fail(err, TD_ETIMEOUT, "process %d: the tap does not answer within %d ms",
                           (int)tap->pid, timeout_ms);
        if (errno != EINTR)
            return td_fail(err, TD_EIO, "poll: %s", strerror(errno));
    }
}

/* Check a message of n bytes: is it one of a tap of our version, and does the tap do what was
 * asked? Ends its strings. */
static int check_message(const struct client_tap *tap, struct tap_msg *m, ssize_t n,
                         struct td_error *err)
{
    if (n <= 0)
        return td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)tap->pid);
    if (n < 8 || m->magic != TAP_MAGIC)
        return td_fail(err, TD_EPROTO, "%s: the answer there is not a tap's", tap->socket);
    if (m->version != TAP_VERSION)
        return td_fail(err, TD_EVERSION,
                       "%s: the tap speaks protocol %u and this record %u; start the server with "
                       "the tap of this version",
                       tap->socket, m->version, TAP_VERSION);
    if (n != (ssize_t)sizeof *m)
        return td_fail(err, TD_EPROTO, "%s: the tap's answer has %zd bytes, expected %zu",
                       tap->socket, n, sizeof *m);
    m->text[TAP_TEXT - 1] = m->library[TAP_TEXT - 1] = m->build[TAP_TEXT - 1] =
        m->fronts[TAP_FRONTS - 1] = '\0';
    if (m->status == TAP_BUSY && m->number)
        return td_fail(err, TD_EEXIST,
                       "process %d: another recorder is connected to its tap, process %u; wait until "
                       "it has ended",
                       (int)tap->pid, m->number);
    if (m->status == TAP_BUSY)
        return td_fail(
            err, TD_EEXIST,
            "process %d: another recorder is connected to its tap; wait until it has ended",
            (int)tap->pid);
    if (m->status == TAP_BAD_VERSION)
        return td_fail(err, TD_EVERSION, "%s: the tap refuses protocol %u", tap->socket,
                       TAP_VERSION);
    if (m->status != TAP_OK)
        return td_fail(err, TD_EPROTO, "process %d: the tap refuses: %s", (int)tap->pid, m->text);
    return TD_OK;
}

static int receive_message(const struct client_tap *tap, struct tap_msg *m, int timeout_ms,
                           struct td_error *err)
{
    int rc = wait_for_message(tap, timeout_ms, err);

    memset(m, 0, sizeof *m);
    return rc ? rc : check_message(tap, m, recv(tap->fd, m, sizeof *m, MSG_DONTWAIT), err);
}

int client_tap_ask(struct client_tap *tap, struct tap_msg *m, struct tap_msg *reply, int timeout_ms,
                   struct td_error *err)
{
    while (recv(tap->fd, reply, sizeof *reply, MSG_DONTWAIT) > 0)
        ;                             /* drop an answer that came after its question was given up */
    if (send_message(tap, m, -1))
        return td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)tap->pid);
    return receive_message(tap, reply, timeout_ms, err);
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static int connect_socket(struct client_tap *tap, struct td_error *err)
{
    const struct timeval limit = {.tv_sec = GREETING_MS / 1000, .tv_usec = GREETING_MS % 1000 * 1000};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t n = sizeof peer;
    int rc;

    memcpy(a.sun_path, tap->socket, sizeof a.sun_path);
    /* connect and sendmsg end by it: a stopped server's queue of connections may be full, and so may its buffers */
    setsockopt(tap->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    rc = connect(tap->fd, (struct sockaddr *)&a, sizeof a);
    if (rc && errno == EAGAIN)
        return td_fail(err, TD_ETIMEOUT,
                       "%s: the tap takes no connection within %d ms; is the server stopped?", tap->socket, GREETING_MS);
    if (rc)
        return td_fail(err, TD_ENOTFOUND, "%s: cannot connect: %s%s", tap->socket, strerror(errno),
                       errno == ECONNREFUSED ? "; no process serves it any more" : "");
    if (getsockopt(tap->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) ||
        (geteuid() != 0 && peer.uid != geteuid()))
        return td_fail(err, TD_EPROTO, "%s: served by another user", tap->socket);
    return TD_OK;
}

/* What the tap says of itself. pid : the process's number in our own namespace */
static void copy_greeting(struct client_tap *tap, pid_t pid, struct tap_msg *m)
{
    char real[TD_PATH_MAX];

    tap->pid = (pid_t)m->pid;
    if (!client_is_text(m->library, sizeof m->library, true))
        m->library[0] = '\0';
    tap->code_fd = client_open_mapped_library(pid, m->library);
    if (!realpath(m->library, real) ||
        snprintf(tap->library, sizeof tap->library, "%s", real) >= (int)sizeof tap->library)
        memcpy(tap->library, m->library, sizeof tap->library); /* a container's path, for example */
    memcpy(tap->build, m->build, sizeof tap->build);
    memcpy(tap->fronts, m->fronts, sizeof tap->fronts);
    tap->alive = true;
    if (strstr(tap->build, "cannot be recorded"))
        td_log(TD_LOG_WARN, "tap", "process %d: %s", (int)tap->pid, tap->build);
}

int client_tap_greet(struct client_tap *tap, const struct client_found *at, struct td_error *err)
{
    struct tap_msg greeting;
    int rc;

    memset(tap, 0, sizeof *tap);
    tap->code_fd = -1;
    tap->pid = at->pid;
    tap->rank = client_process_rank(at->pid, tap->title, sizeof tap->title);
    memcpy(tap->socket, at->socket, sizeof tap->socket);
    tap->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (tap->fd < 0)
        return td_fail(err, TD_EIO, "socket: %s", strerror(errno));
    rc = connect_socket(tap, err);
    if (!rc)
        rc = receive_message(tap, &greeting, GREETING_MS, err);
    if (rc) {
        close(tap->fd);
        tap->fd = -1;
        return rc;
    }
    copy_greeting(tap, at->pid, &greeting);
    return TD_OK;
}

bool client_tap_hung_up(const struct client_tap *tap)
{
    struct pollfd p = {tap->fd, POLLRDHUP, 0};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Map n bytes twice in a row, so that a record that wraps around lies in one piece. NULL: not
 * possible. */
static const uint8_t *map_twice(int fd, off_t at, size_t n)
{
    uint8_t *p = mmap(NULL, 2 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    if (mmap(p, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED ||
        mmap(p + n, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED) {
        munmap(p, 2 * n);
        return NULL;
    }
    return p;
}

static int map_memory(struct client_tap *tap, int fd, struct td_error *err)
{
    uint8_t *head =
        mmap(NULL, (size_t)TAP_PAGE * (1 + tap->rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint32_t i;

    if (head == MAP_FAILED)
        return td_fail(err, TD_ENOMEM, "shared memory: %s", strerror(errno));
    tap->shared = (struct tap_shared *)head;
    tap->shared->magic = TAP_MAGIC;
    tap->shared->version = TAP_VERSION;
    for (i = 0; i < tap->rings; i++) {
        tap->ring[i].shared = (struct tap_ring *)(head + (size_t)TAP_PAGE * (1 + i));
        tap->ring[i].data = map_twice(
            fd, (off_t)(tap_memory_bytes(tap->rings, 0) + i * tap->ring_bytes), tap->ring_bytes);
        if (!tap->ring[i].data)
            return td_fail(err, TD_ENOMEM, "shared memory: %s", strerror(errno));
    }
    return TD_OK;
}

/* A sealed memory file for so many rings. Returns its descriptor; < 0: TD_E*. */
static int make_memory(uint32_t rings, uint64_t ring_bytes, struct td_error *err)
{
    uint64_t total = tap_memory_bytes(rings, ring_bytes);
    int fd = memfd_create("tapedeck", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc, e;

    if (fd < 0)
        return td_fail(err, TD_EIO, "memfd_create: %s", strerror(errno));
    /* allocated now: a page that cannot be had later would be a SIGBUS in the server */
    e = ftruncate(fd, (off_t)total) ? errno : posix_fallocate(fd, 0, (off_t)total);
    if (e)
        rc = td_fail(err, TD_ENOMEM, "cannot get %llu MiB of shared memory for the tap: %s",
                     (unsigned long long)(total >> 20), strerror(e));
    else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        rc = td_fail(err, TD_EIO, "cannot seal shared memory: %s", strerror(errno));
    else
        return fd;
    close(fd);
    return rc;
}

int client_tap_attach(struct client_tap *tap, uint32_t rings, uint64_t ring_bytes,
                      struct td_error *err)
{
    struct tap_msg m = {.type = TAP_ATTACH, .rings = rings, .ring_bytes = ring_bytes}, reply;
    int fd = make_memory(rings, ring_bytes, err), rc;

    if (fd < 0)
        return fd;
    tap->booked = (int64_t)tap_memory_bytes(rings, ring_bytes);
    td_memory_beside(tap->booked);
    tap->rings = rings;
    tap->ring_bytes = ring_bytes;
    rc = map_memory(tap, fd, err);
    if (!rc && send_message(tap, &m, fd))
        rc = td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)tap->pid);
    if (!rc)
        rc = receive_message(tap, &reply, ATTACH_MS, err);
    close(fd);
    return rc;
}

/* A file in memory that holds these bytes. Returns its descriptor; < 0: TD_E*. */
static int make_rows_file(const char *rows, size_t n, struct td_error *err)
{
    int fd = memfd_create("tapedeck-rows", MFD_CLOEXEC);

    if (fd >= 0 && pwrite(fd, rows, n, 0) == (ssize_t)n)
        return fd;
    if (fd >= 0)
        close(fd);
    return td_fail(err, TD_EIO, "cannot hand %zu bytes of rows on to the tap: %s", n,
                   strerror(errno));
}

int client_tap_send_rows(struct client_tap *tap, const char *rows, size_t n, struct td_error *err)
{
    struct tap_msg m = {.type = TAP_ROWS, .ring_bytes = n}, reply;
    int fd = make_rows_file(rows, n, err), rc = TD_OK;

    if (fd < 0)
        return fd;
    if (send_message(tap, &m, fd))
        rc = td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)tap->pid);
    if (!rc)
        rc = receive_message(tap, &reply, ATTACH_MS, err);
    close(fd);
    return rc;
}

void client_tap_close(struct client_tap *tap)
{
    uint32_t i;

    for (i = 0; i < tap->rings; i++)
        if (tap->ring[i].data)
            munmap((void *)tap->ring[i].data, 2 * tap->ring_bytes);
    if (tap->shared)
        munmap(tap->shared, (size_t)TAP_PAGE * (1 + tap->rings));
    if (tap->fd >= 0)
        close(tap->fd);
    if (tap->code_fd >= 0)
        close(tap->code_fd);
    td_memory_beside(-tap->booked);
    memset(tap, 0, sizeof *tap);
    tap->fd = tap->code_fd = -1;
}
