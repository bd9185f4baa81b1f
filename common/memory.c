/* memory.c - the memory that a program may take for what it reads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/memory.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SMALL_SPACE ((int64_t)4 << 30)      /* an address space in which 16 threads would have no place for allocations of their own */
#define KEPT_PIECE (32 << 20)  /* the largest that mallopt() takes: larger pieces are mapped, and given back when they are freed */
#define KEPT_BYTES (128 << 20) /* at the end of each of malloc's arenas */
#define MEASURE_EVERY ((uint64_t)4 << 20) /* bytes asked for between two measurements */

static _Atomic int64_t maximum; /* 0: not known yet */
static const char *given;       /* argument of td_memory_set() */
static _Atomic uint64_t asked;  /* since it was measured */
static _Atomic int64_t beside;  /* td_memory_beside() */

/* ---- what the machine has -------------------------------------------------------------------- */

/* Read a small file of the kernel as a string. False: it cannot be read. */
static bool read_text(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, n - 1) : -1;

    if (fd >= 0)
        close(fd);
    out[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The number in a file of a control group; INT64_MAX: none, or no limit. */
static int64_t group_limit(const char *folder, const char *group, const char *file)
{
    char path[PATH_MAX + 64], text[64], *end;
    long long v;

    if (snprintf(path, sizeof path, "%s%s/%s", folder, group, file) >= (int)sizeof path || !read_text(path, text, sizeof text))
        return INT64_MAX;
    v = strtoll(text, &end, 10);
    return end == text || v <= 0 ? INT64_MAX : v;
}

/* The smallest limit of a group and of those above it. group is cut to "". */
static int64_t smallest_limit(const char *folder, char *group, const char *file)
{
    int64_t least = INT64_MAX, v;
    char *slash;

    for (;;) {
        v = group_limit(folder, group, file);
        least = v < least ? v : least;
        slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* What the control groups of this process allow. Lines of /proc/self/cgroup: "0::/a/b" (version 2),
 * "5:memory:/a/b" (version 1). */
static int64_t groups_allow(void)
{
    char text[8192], *line, *rest = NULL;
    int64_t least = INT64_MAX, v = INT64_MAX;

    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return least;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;

        if (!group)
            continue;
        *group++ = '\0';
        if (!strcmp(names, ":"))
            v = smallest_limit("/sys/fs/cgroup", group, "memory.max");
        else if (strstr(names, "memory"))
            v = smallest_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        least = v < least ? v : least;
    }
    return least;
}

int64_t td_memory_address_space(void)
{
    struct rlimit most;

    if (getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY || most.rlim_cur > INT64_MAX)
        return INT64_MAX;
    return (int64_t)most.rlim_cur;
}

void td_memory_begin(void)
{
    if (td_memory_address_space() < SMALL_SPACE)
        mallopt(M_ARENA_MAX, 1);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t td_memory_max(void)
{
    int64_t max = atomic_load(&maximum);

    if (max)
        return max;
    max = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    max = smaller(max, smaller(groups_allow(), td_memory_address_space())) / 2;
    if (max < TD_MEMORY_MIN)
        max = TD_MEMORY_MIN;
    atomic_store(&maximum, max);
    return max;
}

int td_memory_set(const char *size, struct td_error *err)
{
    static const char units[] = "KMGT";
    const char *unit;
    char *end;
    double v = strtod(size, &end);
    int power = 0;

    if (end != size && *end && (unit = strchr(units, toupper((unsigned char)*end)))) {
        power = 10 * (int)(unit - units + 1);
        end++;
        end += *end == 'i' || *end == 'I';
        end += *end == 'B' || *end == 'b';
    }
    v *= (double)((int64_t)1 << power);
    if (end == size || *end || !(v >= 0 && v < 0x1p62))
        return td_fail(err, TD_EINVAL, "--max-memory: \"%s\" is no size; write 8G, 512M or a number of bytes", size);
    if (v < (double)TD_MEMORY_MIN)
        return td_fail(err, TD_EINVAL, "--max-memory: %s is less than %lldM, the least that a program works with", size,
                       (long long)(TD_MEMORY_MIN >> 20));
    atomic_store(&maximum, (int64_t)v);
    given = size;
    return TD_OK;
}

const char *td_memory_given(void)
{
    return given;
}

/* ---- room ------------------------------------------------------------------------------------ */

int64_t td_memory_used(void)
{
    long long size, resident, shared;
    char text[128];

    if (!read_text("/proc/self/statm", text, sizeof text) || sscanf(text, "%lld %lld %lld", &size, &resident, &shared) != 3)
        return 0;
    return (int64_t)(resident - shared) * sysconf(_SC_PAGESIZE);
}

void td_memory_beside(int64_t delta)
{
    atomic_fetch_add(&beside, delta);
}

/* What counts as in use. */
static uint64_t counted(void)
{
    return (uint64_t)(td_memory_used() + atomic_load(&beside));
}

uint64_t td_memory_left(void)
{
    uint64_t max = (uint64_t)td_memory_max(), used = counted();

    return used < max ? max - used : 0;
}

void td_memory_allow(uint64_t n)
{
    atomic_store(&maximum, (int64_t)counted() + (int64_t)n);
}

void td_memory_keep_freed(void)
{
    mallopt(M_MMAP_THRESHOLD, KEPT_PIECE);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

/* "1.5 GiB" */
static const char *size_text(uint64_t n, char out[32])
{
    if (n >= (uint64_t)1 << 30)
        snprintf(out, 32, "%.1f GiB", (double)n / 0x1p30);
    else
        snprintf(out, 32, "%.1f MiB", (double)n / 0x1p20);
    return out;
}

int td_memory_room(uint64_t n, const char *what, struct td_error *err)
{
    uint64_t max = (uint64_t)td_memory_max(), used;
    char a[32], b[32], c[32];

    if (n < MEASURE_EVERY && atomic_fetch_add(&asked, n) + n < MEASURE_EVERY)
        return TD_OK;
    atomic_store(&asked, 0);
    used = counted();
    if (n <= max && used <= max - n)
        return TD_OK;
    malloc_trim(0); /* what was freed may still count */
    used = counted();
    if (n <= max && used <= max - n)
        return TD_OK;
    return td_fail(err, TD_ENOMEM, "%s: needs up to %s of memory, and %s of %s are in use; --max-memory SIZE allows more", what,
                   size_text(n, a), size_text(used, b), size_text(max, c));
}

int td_memory_room_record(uint64_t n, const char *what, struct td_error *err)
{
    uint64_t max = (uint64_t)td_memory_max();
    char a[32], b[32], c[32];

    if (n > max / TD_MEMORY_RECORD_PART)
        return td_fail(err, TD_ENOMEM,
                       "%s: needs up to %s of memory, and one record may take %s (a part of %s; --max-memory SIZE allows more)",
                       what, size_text(n, a), size_text(max / TD_MEMORY_RECORD_PART, b), size_text(max, c));
    return td_memory_room(n, what, err);
}
