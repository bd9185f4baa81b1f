/* guard.c - memory for a tensor that ends at a forbidden page.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/child/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static int map_memory(struct td_guard *g, size_t room, struct td_error *err)
{
    size_t page = page_bytes(), inner = (room + page - 1) / page * page;
    uint8_t *m;

    if (g->map && g->map_bytes >= inner + 2 * page)
        return TD_OK;
    td_guard_release(g);
    inner += inner / 4 / page * page; /* so that the next tensor rarely needs another mapping */
    m = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        return td_fail(err, TD_ENOMEM, "cannot map %zu bytes for a tensor: %s", inner, strerror(errno));
    if (mprotect(m + page, inner, PROT_READ | PROT_WRITE)) {
        munmap(m, inner + 2 * page);
        return td_fail(err, TD_ENOMEM, "cannot open %zu bytes for a tensor: %s", inner, strerror(errno));
    }
    g->map = m;
    g->map_bytes = inner + 2 * page;
    return TD_OK;
}

int td_guard_place(struct td_guard *g, size_t size, size_t align, bool at_end, struct td_error *err)
{
    const uint8_t *before = g->data;
    const size_t size_before = g->size;
    size_t page = page_bytes();
    uint8_t *start, *end;

    if (!align)
        align = 64;
    if (align > page || align & (align - 1))
        return td_fail(err, TD_EINVAL, "an alignment of %zu is no power of two up to %zu", align, page);
    if (size > (size_t)1 << 40)
        return td_fail(err, TD_ELIMIT, "a tensor of %zu bytes is beyond the maximum of 1 TiB", size);
    if (map_memory(g, size + align + 2 * page, err))
        return err ? err->code : TD_ENOMEM;
    start = g->map + page;
    end = g->map + g->map_bytes - page;
    g->data = at_end ? (uint8_t *)(((uintptr_t)end - size) & ~(uintptr_t)(align - 1)) : start + page;
    g->size = size;
    if (g->data != before || size != size_before)
        g->content = (struct td_hash){0, 0};
    g->tail = (size_t)(end - g->data) - size;
    if (!at_end && g->tail > TD_GUARD_FRONT)
        g->tail = TD_GUARD_FRONT;
    memset(g->data - TD_GUARD_FRONT, TD_GUARD_GAP_BYTE, TD_GUARD_FRONT);
    memset(g->data + size, TD_GUARD_GAP_BYTE, g->tail);
    return TD_OK;
}

long td_guard_check(const struct td_guard *g)
{
    size_t i;

    for (i = g->tail; i > 0; i--)
        if (g->data[g->size + i - 1] != TD_GUARD_GAP_BYTE)
            return (long)i;
    for (i = TD_GUARD_FRONT; i > 0; i--)
        if (g->data[-(long)i] != TD_GUARD_GAP_BYTE)
            return -(long)i;
    return 0;
}

int td_guard_owns(const struct td_guard *g, const void *addr, long *by)
{
    uintptr_t a = (uintptr_t)addr, m = (uintptr_t)g->map, page = 4096;

    *by = 0;
    if (!g->map)
        return 0;
    if (a >= m + g->map_bytes - page && a < m + g->map_bytes) {
        *by = (long)(a - (uintptr_t)(g->data + g->size));
        return 1;
    }
    return a >= m && a < m + page ? -1 : 0;
}

void td_guard_release(struct td_guard *g)
{
    if (g->map)
        munmap(g->map, g->map_bytes);
    memset(g, 0, sizeof *g);
}
