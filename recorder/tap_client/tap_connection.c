/* tap_connection.c - messages to a tap, and the memory shared with it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "recorder/tap_client/client_state.h"

static int send_message(struct client_tap *lk, struct tap_msg *m, int memory)
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
    return sendmsg(lk->fd, &h, MSG_NOSIGNAL) < 0 ? TD_EIO : TD_OK;
}

static int receive(struct client_tap *lk, struct tap_msg *reply, int timeout_ms, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + timeout_ms * TD_NS_PER_MS;
    struct pollfd p = {lk->fd, POLLIN, 0};
    ssize_t n;

    memset(reply, 0, sizeof *reply);
    for (;;) {
        int64_t left = (until - td_clock_mono_ns()) / TD_NS_PER_MS;
        int r = poll(&p, 1, left > 0 ? (int)left : 0);

        if (r > 0)
            break;
        if (r == 0)
            return td_fail(err, TD_ETIMEOUT, "process %d: the tap does not answer within %d ms", (int)lk->pid, timeout_ms);
        if (errno != EINTR)
            return td_fail(err, TD_EIO, "poll: %s", strerror(errno));
    }
    n = recv(lk->fd, reply, sizeof *reply, MSG_DONTWAIT);
    if (n <= 0)
        return td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)lk->pid);
    if (n < 8 || reply->magic != TAP_MAGIC)
        return td_fail(err, TD_EPROTO, "%s: what answers there is no tap", lk->socket);
    if (reply->version != TAP_VERSION)
        return td_fail(err, TD_EVERSION, "%s: the tap speaks protocol %u and this record %u; start the server with the tap of this version",
                       lk->socket, reply->version, TAP_VERSION);
    if (n != (ssize_t)sizeof *reply)
        return td_fail(err, TD_EPROTO, "%s: the tap's answer has %zd bytes, expected %zu", lk->socket, n, sizeof *reply);
    reply->text[TAP_TEXT - 1] = reply->library[TAP_TEXT - 1] = reply->build[TAP_TEXT - 1] = reply->fronts[TAP_FRONTS - 1] = '\0';
    if (reply->status == TAP_BUSY)
        return td_fail(err, TD_EEXIST, "process %d: another recorder is linked to its tap; wait until it has ended", (int)lk->pid);
    if (reply->status == TAP_BAD_VERSION)
        return td_fail(err, TD_EVERSION, "%s: the tap refuses protocol %u", lk->socket, TAP_VERSION);
    if (reply->status != TAP_OK)
        return td_fail(err, TD_EPROTO, "process %d: the tap refuses: %s", (int)lk->pid, reply->text);
    return TD_OK;
}

int client_ask(struct client_tap *lk, struct tap_msg *m, struct tap_msg *reply, int timeout_ms, struct td_error *err)
{
    while (recv(lk->fd, reply, sizeof *reply, MSG_DONTWAIT) > 0)
        ;                             /* an answer that came too late for who asked */
    if (send_message(lk, m, -1))
        return td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)lk->pid);
    return receive(lk, reply, timeout_ms, err);
}

int client_greet(struct client_tap *lk, const struct client_found *at, struct td_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char real[TD_PATH_MAX];
    struct tap_msg reply;
    struct ucred who;
    socklen_t n = sizeof who;
    int rc;

    memset(lk, 0, sizeof *lk);
    lk->code_fd = -1;
    lk->pid = at->pid;
    client_rank(lk, at->pid);
    memcpy(lk->socket, at->socket, sizeof lk->socket);
    memcpy(a.sun_path, at->socket, sizeof a.sun_path);
    lk->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (lk->fd < 0)
        return td_fail(err, TD_EIO, "socket: %s", strerror(errno));
    if (connect(lk->fd, (struct sockaddr *)&a, sizeof a)) {
        rc = td_fail(err, TD_ENOTFOUND, "%s: cannot connect: %s%s", lk->socket, strerror(errno),
                     errno == ECONNREFUSED ? "; no process serves it any more" : "");
    } else if (getsockopt(lk->fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || (geteuid() != 0 && who.uid != geteuid())) {
        rc = td_fail(err, TD_EPROTO, "%s: served by another user", lk->socket);
    } else {
        rc = receive(lk, &reply, 3000, err);
    }
    if (rc) {
        close(lk->fd);
        lk->fd = -1;
        return rc;
    }
    lk->pid = (pid_t)reply.pid;
    if (!client_is_text(reply.library, sizeof reply.library, true))
        reply.library[0] = '\0';
    lk->code_fd = client_images_open(at->pid, reply.library);
    if (!realpath(reply.library, real) || snprintf(lk->library, sizeof lk->library, "%s", real) >= (int)sizeof lk->library)
        memcpy(lk->library, reply.library, sizeof lk->library); /* a container's path, for example */
    memcpy(lk->build, reply.build, sizeof lk->build);
    memcpy(lk->fronts, reply.fronts, sizeof lk->fronts);
    lk->alive = true;
    if (strstr(lk->build, "cannot be recorded"))
        td_log(TD_LOG_WARN, "tap", "process %d: %s", (int)lk->pid, lk->build);
    return TD_OK;
}

static const uint8_t *map_twice(int fd, off_t at, size_t n)
{
    uint8_t *p = mmap(NULL, 2 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    if (mmap(p, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED || mmap(p + n, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED) {
        munmap(p, 2 * n);
        return NULL;
    }
    return p;
}

static int map_memory(struct client_tap *lk, int fd, struct td_error *err)
{
    uint8_t *head = mmap(NULL, (size_t)TAP_PAGE * (1 + lk->rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint32_t i;

    if (head == MAP_FAILED)
        return td_fail(err, TD_ENOMEM, "shared memory: %s", strerror(errno));
    lk->shared = (struct tap_shared *)head;
    lk->shared->magic = TAP_MAGIC;
    lk->shared->version = TAP_VERSION;
    for (i = 0; i < lk->rings; i++) {
        lk->ring[i].shared = (struct tap_ring *)(head + (size_t)TAP_PAGE * (1 + i));
        lk->ring[i].data = map_twice(fd, (off_t)(tap_memory_bytes(lk->rings, 0) + i * lk->ring_bytes), lk->ring_bytes);
        if (!lk->ring[i].data)
            return td_fail(err, TD_ENOMEM, "shared memory: %s", strerror(errno));
    }
    return TD_OK;
}

int client_attach(struct client_tap *lk, uint32_t rings, uint64_t ring_bytes, struct td_error *err)
{
    struct tap_msg m = {.type = TAP_ATTACH, .rings = rings, .ring_bytes = ring_bytes}, reply;
    uint64_t total = tap_memory_bytes(rings, ring_bytes);
    int fd = memfd_create("tapedeck", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc, e;

    if (fd < 0)
        return td_fail(err, TD_EIO, "memfd_create: %s", strerror(errno));
    lk->rings = rings;
    lk->ring_bytes = ring_bytes;
    /* allocated now: a page that cannot be had later would be a signal in the server */
    e = ftruncate(fd, (off_t)total) ? errno : posix_fallocate(fd, 0, (off_t)total);
    if (e)
        rc = td_fail(err, TD_ENOMEM, "cannot get %llu MiB of shared memory for the tap: %s", (unsigned long long)(total >> 20), strerror(e));
    else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        rc = td_fail(err, TD_EIO, "cannot seal shared memory: %s", strerror(errno));
    else
        rc = map_memory(lk, fd, err);
    if (!rc && send_message(lk, &m, fd))
        rc = td_fail(err, TD_EIO, "process %d is gone, and the tap with it", (int)lk->pid);
    if (!rc)
        rc = receive(lk, &reply, 5000, err);
    close(fd);
    return rc;
}

void client_release(struct client_tap *lk)
{
    uint32_t i;

    for (i = 0; i < lk->rings; i++) {
        client_weights_release(&lk->ring[i]);
        if (lk->ring[i].data)
            munmap((void *)lk->ring[i].data, 2 * lk->ring_bytes);
    }
    if (lk->shared)
        munmap(lk->shared, (size_t)TAP_PAGE * (1 + lk->rings));
    if (lk->fd >= 0)
        close(lk->fd);
    if (lk->code_fd >= 0)
        close(lk->code_fd);
    memset(lk, 0, sizeof *lk);
    lk->fd = lk->code_fd = -1;
}
