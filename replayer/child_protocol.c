/* child_protocol.c - packets and arenas between the replayer and its children.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/child_protocol.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"

/* ---- packets ------------------------------------------------------------------------------------------------------- */

union fd_space { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int))]; };

int td_proto_send(int sock, const struct td_proto_msg *m, int pass_fd, struct td_error *err)
{
    struct iovec io = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof *m};
    union fd_space space;
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1};
    ssize_t n;

    if (pass_fd >= 0) {
        struct cmsghdr *c;

        memset(&space, 0, sizeof space);
        h.msg_control = space.bytes;
        h.msg_controllen = sizeof space.bytes;
        c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pass_fd, sizeof pass_fd);
    }
    do
        n = sendmsg(sock, &h, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == sizeof *m ? TD_OK : td_fail(err, TD_EIO, "the other side of the child's socket is gone: %s", strerror(errno));
}

/* Wait until something can be read; a signal does not shorten the wait. */
static int wait_readable(int sock, int timeout_ms, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + (int64_t)timeout_ms * TD_NS_PER_MS;
    struct pollfd p = {.fd = sock, .events = POLLIN};

    for (;;) {
        int64_t left = timeout_ms < 0 ? -1 : (until - td_clock_mono_ns() + TD_NS_PER_MS - 1) / TD_NS_PER_MS;
        int n = poll(&p, 1, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0);

        if (n > 0)
            return TD_OK;
        if (n == 0 && timeout_ms >= 0)
            return TD_ETIMEOUT;
        if (n < 0 && errno != EINTR)
            return td_fail(err, TD_EIO, "poll: %s", strerror(errno));
    }
}

int td_proto_recv(int sock, struct td_proto_msg *m, int *fd, int timeout_ms, struct td_error *err)
{
    struct iovec io = {.iov_base = m, .iov_len = sizeof *m};
    union fd_space space;
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    struct cmsghdr *c;
    int got = -1, rc = wait_readable(sock, timeout_ms, err);
    ssize_t n;

    if (fd)
        *fd = -1;
    if (rc)
        return rc;
    do
        n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return td_fail(err, TD_EIO, "the other side of the child's socket is gone");
    c = CMSG_FIRSTHDR(&h);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&got, CMSG_DATA(c), sizeof got);
    if (fd)
        *fd = got;
    else if (got >= 0)
        close(got);
    if (n != sizeof *m || m->magic != TD_PROTO_MAGIC)
        return td_fail(err, TD_EPROTO, "a packet of %zd bytes on the child's socket is not of this protocol", n);
    if (m->version != TD_PROTO_VERSION)
        return td_fail(err, TD_EPROTO, "the other side speaks version %u of the child protocol, this is version %d", m->version,
                       TD_PROTO_VERSION);
    m->provider[sizeof m->provider - 1] = '\0';
    m->rounding[sizeof m->rounding - 1] = '\0';
    m->text[sizeof m->text - 1] = '\0';
    return TD_OK;
}

const char *td_proto_stage_name(uint32_t stage)
{
    static const char *const names[] = {"idle", "load", "prepare", "run", "fetch", "release"};

    return stage < sizeof names / sizeof *names ? names[stage] : "?";
}

/* ---- arenas -------------------------------------------------------------------------------------------------------- */

#define ALIGN_UP(x, a) (((x) + ((a) - 1)) & ~((uint64_t)(a) - 1))

size_t td_proto_image_stride(size_t size_bytes)
{
    return ALIGN_UP(size_bytes, 64);
}

uint64_t td_proto_copies_size(const struct td_op_call *op)
{
    const uint64_t gaps = 5 * 4096; /* of one tensor: forbidden pages, alignment, a free page */
    uint64_t n = op->out.size_bytes + op->out.size_bytes / 4 + gaps;
    int t;

    for (t = 0; t < op->n_in; t++)
        n += op->in[t].size_bytes + op->in[t].size_bytes / 4 + gaps;
    return n;
}

int td_proto_arena_size(const struct td_op_call *op, int repeats, uint64_t *size, struct td_error *err)
{
    uint64_t at = ALIGN_UP(sizeof(struct td_proto_arena), 4096);
    int t;

    for (t = 0; t < op->n_in; t++) {
        if (op->in[t].size_bytes > TD_PROTO_ARENA_MAX)
            return td_fail(err, TD_ELIMIT, "tensor %s has %zu bytes, more than a child takes",
                           op->in[t].role, op->in[t].size_bytes);
        at = ALIGN_UP(at + op->in[t].size_bytes, 64);
    }
    if (op->out.size_bytes > TD_PROTO_ARENA_MAX / TD_PROTO_MAX_REPEATS)
        return td_fail(err, TD_ELIMIT, "the output has %zu bytes, more than a child takes", op->out.size_bytes);
    at += td_proto_image_stride(op->out.size_bytes) * (uint64_t)repeats;
    *size = ALIGN_UP(at, 4096);
    return *size <= TD_PROTO_ARENA_MAX ? TD_OK : td_fail(err, TD_ELIMIT, "an op of %llu bytes is more than a child takes",
                                                         (unsigned long long)*size);
}

static void pack_tensor(const struct td_tensor *t, uint64_t offset, struct td_proto_tensor *out)
{
    snprintf(out->role, sizeof out->role, "%s", t->role);
    snprintf(out->dtype, sizeof out->dtype, "%s", td_dtype_name(t->dtype));
    out->ndim = t->ndim;
    memcpy(out->shape, t->shape, sizeof out->shape);
    memcpy(out->strides, t->strides, sizeof out->strides);
    out->offset = offset;
    out->size_bytes = t->size_bytes;
    out->align = t->align;
    out->content = t->content;
}

static bool lies_there(const struct td_proto_lies *lies, const struct td_tensor *t, uint64_t at)
{
    for (int i = 0; i < lies->n; i++)
        if (lies->in[i].offset == at && lies->in[i].size_bytes == t->size_bytes && td_hash_eq(lies->in[i].content, t->content))
            return !td_hash_is_zero(t->content);
    return false;
}

/* Copy the inputs that belong to the call, or those that do not. The place behind them. */
static uint64_t pack_inputs(const struct td_op_call *op, bool of_the_call, char *arena, uint64_t at, const struct td_proto_lies *before,
                            struct td_proto_lies *now)
{
    struct td_proto_arena *h = (struct td_proto_arena *)arena;

    for (int i = 0; i < op->n_in; i++) {
        const struct td_tensor *t = &op->in[i];

        if (td_op_input_is_of_the_call(t->role) != of_the_call)
            continue;
        pack_tensor(t, at, &h->in[i]);
        if (t->size_bytes && !lies_there(before, t, at))
            memcpy(arena + at, t->data, t->size_bytes);
        now->in[now->n].content = t->content;
        now->in[now->n].offset = at;
        now->in[now->n++].size_bytes = t->size_bytes;
        at = ALIGN_UP(at + t->size_bytes, 64);
    }
    return at;
}

int td_proto_pack(const struct td_op_call *op, void *arena, uint64_t size, int repeats, struct td_proto_lies *lies, struct td_error *err)
{
    const struct td_proto_lies before = *lies;
    struct td_proto_arena *h = arena;
    uint64_t at = ALIGN_UP(sizeof *h, 4096), need;

    if (td_proto_arena_size(op, repeats, &need, err))
        return err ? err->code : TD_ELIMIT;
    if (need > size)
        return td_fail(err, TD_ELIMIT, "the op needs an arena of %llu bytes, this one has %llu", (unsigned long long)need,
                       (unsigned long long)size);
    memset(h, 0, sizeof *h);
    h->magic = TD_PROTO_MAGIC;
    h->version = TD_PROTO_VERSION;
    snprintf(h->kind, sizeof h->kind, "%s", op->kind);
    snprintf(h->act_rounding, sizeof h->act_rounding, "%s", op->act_rounding);
    memcpy(h->symbol, op->symbol, sizeof h->symbol);
    memcpy(h->layout, op->layout, sizeof h->layout);
    h->n_launches = op->n_launches;
    memcpy(h->launches, op->launches, sizeof h->launches);
    h->n_attrs = op->n_attrs;
    memcpy(h->attrs, op->attrs, sizeof h->attrs);
    h->n_in = op->n_in;
    lies->n = 0;
    at = pack_inputs(op, false, arena, at, &before, lies);
    at = pack_inputs(op, true, arena, at, &before, lies);
    pack_tensor(&op->out, at, &h->out);
    return TD_OK;
}

static int unpack_tensor(const struct td_proto_tensor *p, void *arena, uint64_t size, uint64_t images, struct td_tensor *t,
                         struct td_error *err)
{
    uint64_t bytes = images > 1 ? td_proto_image_stride(p->size_bytes) * images : p->size_bytes;

    if (p->offset > size || p->size_bytes > size || bytes > size - p->offset)
        return td_fail(err, TD_EPROTO, "a tensor lies outside of the arena");
    if (p->ndim < 0 || p->ndim > TD_OP_MAX_DIMS)
        return td_fail(err, TD_EPROTO, "a tensor of %lld dimensions", (long long)p->ndim);
    memcpy(t->role, p->role, sizeof t->role);
    t->role[sizeof t->role - 1] = '\0';
    t->dtype = td_dtype_parse(p->dtype);
    t->ndim = (int)p->ndim;
    memcpy(t->shape, p->shape, sizeof t->shape);
    memcpy(t->strides, p->strides, sizeof t->strides);
    t->data = (char *)arena + p->offset;
    t->size_bytes = p->size_bytes;
    t->align = p->align;
    t->content = p->content;
    return TD_OK;
}

int td_proto_unpack(void *arena, uint64_t size, int repeats, struct td_op_call *op, void **images, struct td_error *err)
{
    struct td_proto_arena *h = arena;
    int t;

    memset(op, 0, sizeof *op);
    if (size < sizeof *h || h->magic != TD_PROTO_MAGIC || h->version != TD_PROTO_VERSION)
        return td_fail(err, TD_EPROTO, "the arena does not begin as version %d of the child protocol does", TD_PROTO_VERSION);
    if (h->n_attrs < 0 || h->n_attrs > TD_OP_MAX_ATTRS || h->n_in < 0 || h->n_in > TD_OP_MAX_TENSORS || h->n_launches < 0
        || h->n_launches > TD_OP_MAX_LAUNCHES)
        return td_fail(err, TD_EPROTO, "an op with %lld attributes, %lld inputs and %lld launches",
                       (long long)h->n_attrs, (long long)h->n_in, (long long)h->n_launches);
    memcpy(op->kind, h->kind, sizeof op->kind);
    op->kind[sizeof op->kind - 1] = '\0';
    memcpy(op->act_rounding, h->act_rounding, sizeof op->act_rounding);
    op->act_rounding[sizeof op->act_rounding - 1] = '\0';
    memcpy(op->symbol, h->symbol, sizeof op->symbol);
    op->symbol[sizeof op->symbol - 1] = '\0';
    memcpy(op->layout, h->layout, sizeof op->layout);
    op->layout[sizeof op->layout - 1] = '\0';
    op->n_launches = (int)h->n_launches;
    memcpy(op->launches, h->launches, sizeof op->launches);
    for (t = 0; t < TD_OP_MAX_LAUNCHES; t++)
        op->launches[t].symbol[sizeof op->launches[t].symbol - 1] = '\0';
    op->n_attrs = (int)h->n_attrs;
    memcpy(op->attrs, h->attrs, sizeof op->attrs);
    for (t = 0; t < TD_OP_MAX_ATTRS; t++)
        op->attrs[t].name[sizeof op->attrs[t].name - 1] = '\0';
    op->n_in = (int)h->n_in;
    for (t = 0; t < op->n_in; t++)
        if (unpack_tensor(&h->in[t], arena, size, 1, &op->in[t], err))
            return err ? err->code : TD_EPROTO;
    if (unpack_tensor(&h->out, arena, size, (uint64_t)repeats, &op->out, err))
        return err ? err->code : TD_EPROTO;
    *images = op->out.data;
    return TD_OK;
}
