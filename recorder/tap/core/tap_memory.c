/* tap_memory.c - the memory that the recorder shares: checked, mapped, unmapped.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_ring_slot.h"

static void *ours;                    /* the page behind tap_plan.ours */

void tap_memory_unmap(void)
{
    uint32_t i;

    for (i = 0; i < tap_plan.rings; i++) {
        struct tap_ring_slot *s = &tap_ring_slots[i];

        if (s->data)
            munmap(s->data, 2 * tap_plan.ring_bytes);
        if (s->weights)
            munmap(s->weights, TAP_KNOWN_WEIGHTS * sizeof *s->weights);
        s->data = NULL;
        s->weights = NULL;
        s->ring = NULL;
    }
    if (tap_plan.shared)
        munmap(tap_plan.shared, (size_t)TAP_PAGE * (1 + tap_plan.rings));
    tap_plan.shared = NULL;
    tap_plan.rings = 0;
}

/* Everything about the memory that could hurt later is looked at now: its size, that it cannot
 * shrink, that it is all there. */
static const char *check_memory(int fd, const struct tap_msg *m)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (!m->rings || m->rings > TAP_MAX_RINGS || m->ring_bytes < TAP_MIN_RING_BYTES ||
        m->ring_bytes > TAP_MAX_RING_BYTES || m->ring_bytes % TAP_PAGE)
        return "number or size of rings out of range";
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return "the memory is not sealed";
    if (fstat(fd, &st) || (uint64_t)st.st_size != tap_memory_bytes(m->rings, m->ring_bytes))
        return "the memory has another size";
    if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
        return "the memory is not allocated";
    return NULL;
}

static uint8_t *map_twice(int fd, off_t at, size_t n)
{
    uint8_t *p = mmap(NULL, 2 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;

    if (p == MAP_FAILED)
        return NULL;
    if (mmap(p, n, PROT_READ | PROT_WRITE, flags, fd, at) == MAP_FAILED ||
        mmap(p + n, n, PROT_READ | PROT_WRITE, flags, fd, at) == MAP_FAILED) {
        munmap(p, 2 * n);
        return NULL;
    }
    return p;
}

static bool map_slot(struct tap_ring_slot *s, int fd, const struct tap_msg *m, uint32_t i)
{
    void *weights = mmap(NULL, TAP_KNOWN_WEIGHTS * sizeof *s->weights, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(s, 0, sizeof *s);
    s->weights = weights == MAP_FAILED ? NULL : weights;
    s->ring = (struct tap_ring *)((uint8_t *)tap_plan.shared + (size_t)TAP_PAGE * (1 + i));
    s->data = map_twice(fd, (off_t)tap_memory_bytes(m->rings, 0) + (off_t)(i * m->ring_bytes),
                        m->ring_bytes);
    return s->weights && s->data;
}

/* A page that a child sees empty. Where the kernel cannot do that, children that pthread_atfork
 * misses are not noticed. */
static bool map_ours(void)
{
    uint32_t *p = ours;

    if (!p) {
        p = mmap(NULL, TAP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return false;
        madvise(p, TAP_PAGE, MADV_WIPEONFORK);
        ours = p;
    }
    *p = 1;
    tap_plan.ours = p;
    return true;
}

const char *tap_memory_attach(int fd, const struct tap_msg *m)
{
    const char *why = fd < 0 ? "no memory came along" : check_memory(fd, m);
    void *head;
    uint32_t i;

    if (why)
        return why;
    if (!map_ours())
        return "out of memory";
    head = mmap(NULL, (size_t)TAP_PAGE * (1 + m->rings), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_POPULATE, fd, 0);
    if (head == MAP_FAILED)
        return "the memory cannot be mapped";
    tap_plan.shared = head;
    tap_plan.rings = m->rings;
    tap_plan.ring_bytes = m->ring_bytes;
    for (i = 0; i < m->rings && !why; i++)
        if (!map_slot(&tap_ring_slots[i], fd, m, i))
            why = "the memory cannot be mapped";
    if (why)
        tap_memory_unmap();
    return why;
}
