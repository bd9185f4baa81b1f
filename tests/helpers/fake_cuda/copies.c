/* copies.c - the fake driver's copies and fills.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Addresses are checked at the call. As in the real driver, a copy reads or writes pageable host
 * memory before the call returns, and pinned memory when the stream reaches the copy. A copy of up
 * to 64 KiB from pageable memory returns before it is done, even a synchronous one ("API
 * synchronization behavior" in the driver's manual). */
#include "tests/helpers/fake_cuda/state.h"

#include <stdlib.h>
#include <string.h>

#define STAGED ((size_t)64 << 10)

static bool on_device(uint64_t address, size_t bytes)
{
    return region_of(address, bytes, false) != NULL;
}

static int issue_copy(struct stream *s, void *to, const void *from, size_t bytes, bool keep)
{
    struct task *t = task_new(TASK_COPY);

    t->u.copy.to = to;
    t->u.copy.from = from;
    t->u.copy.bytes = bytes;
    if (keep && bytes) {
        if (!(t->u.copy.owned = malloc(bytes)))
            abort();
        memcpy(t->u.copy.owned, from, bytes);
        t->u.copy.from = t->u.copy.owned;
    }
    return stream_issue(s, t);
}

static int to_device(uint64_t to, const void *from, size_t bytes, struct stream *s, bool wait)
{
    bool pinned = is_pinned(from, bytes);
    int rc;

    if (!s)
        return TD_CUDA_INVALID_HANDLE;
    if (!on_device(to, bytes) || (wait && s->capture))
        return s->capture ? TD_CUDA_STREAM_CAPTURE_UNSUPPORTED : TD_CUDA_INVALID_VALUE;
    fake.bytes_copied_in += bytes;
    rc = issue_copy(s, (void *)(uintptr_t)to, from, bytes, !pinned);
    if (!rc && wait && (pinned || bytes > STAGED))
        stream_finish(s, s->issued);
    return rc;
}

static int to_host(void *to, uint64_t from, size_t bytes, struct stream *s, bool wait)
{
    bool pinned = is_pinned(to, bytes);
    int rc;

    if (!s)
        return TD_CUDA_INVALID_HANDLE;
    if (!on_device(from, bytes))
        return TD_CUDA_INVALID_VALUE;
    if (s->capture && (wait || !pinned))
        return TD_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    rc = issue_copy(s, to, (const void *)(uintptr_t)from, bytes, false);
    if (!rc && (wait || !pinned))
        stream_finish(s, s->issued);
    return rc ? rc : fake.sticky;
}

static int between(uint64_t to, uint64_t from, size_t bytes, struct stream *s)
{
    if (!s)
        return TD_CUDA_INVALID_HANDLE;
    return on_device(to, bytes) && on_device(from, bytes) ? issue_copy(s, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, false)
                                                           : TD_CUDA_INVALID_VALUE;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    int rc = enter("cuMemcpyHtoD_v2", NEED_CONTEXT);

    return leave(rc ? rc : to_device(to, from, bytes, &fake.legacy, true));
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    int rc = enter("cuMemcpyHtoDAsync_v2", NEED_CONTEXT);

    return leave(rc ? rc : to_device(to, from, bytes, stream_of(stream, false), false));
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    int rc = enter("cuMemcpyDtoH_v2", NEED_CONTEXT);

    return leave(rc ? rc : to_host(to, from, bytes, &fake.legacy, true));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    int rc = enter("cuMemcpyDtoHAsync_v2", NEED_CONTEXT);

    return leave(rc ? rc : to_host(to, from, bytes, stream_of(stream, false), false));
}

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
    int rc = enter("cuMemcpyDtoD_v2", NEED_CONTEXT);

    return leave(rc ? rc : between(to, from, bytes, &fake.legacy));
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    int rc = enter("cuMemcpyDtoDAsync_v2", NEED_CONTEXT);

    return leave(rc ? rc : between(to, from, bytes, stream_of(stream, false)));
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    int rc = enter("cuMemcpyAsync", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (rc)
        return leave(rc);
    if (on_device(to, bytes) && on_device(from, bytes))
        return leave(between(to, from, bytes, s));
    return leave(on_device(to, bytes) ? to_device(to, (const void *)(uintptr_t)from, bytes, s, false)
                                      : to_host((void *)(uintptr_t)to, from, bytes, s, false));
}

/* One side of a 2D copy: may this memory be used later, when the stream reaches the copy? */
static bool rows_fit(int type, const void *host, uint64_t device, size_t x, size_t y, size_t pitch, size_t width, size_t height)
{
    uint64_t base = type == TD_CUDA_MEMORY_HOST ? (uint64_t)(uintptr_t)host : device;

    return height == 0 || (pitch >= x + width && on_device(base, (y + height - 1) * pitch + x + width));
}

/* A 2D copy. Pageable memory is not supported: both sides must be on the device or pinned. */
int cuMemcpy2DAsync_v2(const struct td_cuda_copy_2d *c, void *stream)
{
    int rc = enter("cuMemcpy2DAsync_v2", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);
    struct task *t;

    if (rc || !s)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (!rows_fit(c->src_type, c->src_host, c->src_device, c->src_x_bytes, c->src_y, c->src_pitch, c->width_bytes, c->height)
        || !rows_fit(c->dst_type, c->dst_host, c->dst_device, c->dst_x_bytes, c->dst_y, c->dst_pitch, c->width_bytes, c->height))
        return leave(TD_CUDA_INVALID_VALUE);
    t = task_new(TASK_COPY_2D);
    t->u.copy_2d = *c;
    return leave(stream_issue(s, t));
}

static int fill(uint64_t to, uint32_t value, size_t n, size_t width, struct stream *s)
{
    struct task *t;

    if (!s)
        return TD_CUDA_INVALID_HANDLE;
    if (!on_device(to, n * width))
        return TD_CUDA_INVALID_VALUE;
    t = task_new(TASK_SET);
    t->u.set.to = (void *)(uintptr_t)to;
    t->u.set.value = value;
    t->u.set.n = n;
    t->u.set.width = width;
    return stream_issue(s, t);
}

int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t n)
{
    int rc = enter("cuMemsetD8_v2", NEED_CONTEXT);

    return leave(rc ? rc : fill(to, value, n, 1, &fake.legacy));
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void *stream)
{
    int rc = enter("cuMemsetD8Async", NEED_CONTEXT);

    return leave(rc ? rc : fill(to, value, n, 1, stream_of(stream, false)));
}

int cuMemsetD32_v2(uint64_t to, unsigned value, size_t n)
{
    int rc = enter("cuMemsetD32_v2", NEED_CONTEXT);

    return leave(rc ? rc : fill(to, value, n, 4, &fake.legacy));
}

int cuMemsetD32Async(uint64_t to, unsigned value, size_t n, void *stream)
{
    int rc = enter("cuMemsetD32Async", NEED_CONTEXT);

    return leave(rc ? rc : fill(to, value, n, 4, stream_of(stream, false)));
}

int cuStreamWriteValue32_v2(void *stream, uint64_t to, uint32_t value, unsigned flags)
{
    int rc = enter("cuStreamWriteValue32_v2", NEED_CONTEXT);

    (void)flags;
    return leave(rc ? rc : to % 4 ? TD_CUDA_INVALID_VALUE : fill(to, value, 1, 4, stream_of(stream, false)));
}
