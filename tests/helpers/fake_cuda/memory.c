/* memory.c - the fake driver's memory: allocations, pinned host memory, reserved and mapped address
 * ranges.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An allocation has slack behind it, as on a device: a kernel that writes a little too far is not
 * noticed there. Behind a mapping lies a page without access. New memory holds 0xd5, never
 * zeros. */
#include "tests/helpers/fake_cuda/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLACK ((size_t)64 << 10)
#define GRANULE ((size_t)2 << 20)
#define FRESH 0xd5
#define DEVICE_ALIGN 512

/* ---- regions --------------------------------------------------------------------------------- */

struct region *region_of(uint64_t address, size_t bytes, bool reservations)
{
    struct region *found = NULL;

    for (struct region *r = fake.regions; r; r = r->next) {
        uint64_t base = (uint64_t)(uintptr_t)r->base;

        if (address >= base && address - base <= r->bytes && bytes <= r->bytes - (address - base) && (reservations || r->kind != REGION_RESERVED)
            && (r->kind != REGION_MAPPED || r->open) && (!found || found->kind == REGION_RESERVED))
            found = r;
    }
    return found;
}

bool is_pinned(const void *p, size_t bytes)
{
    struct region *r = region_of((uint64_t)(uintptr_t)p, bytes, false);

    return r && r->kind == REGION_PINNED;
}

static struct region *region_add(enum region_kind kind, void *base, size_t bytes, size_t map_bytes)
{
    struct region *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    *r = (struct region){fake.regions, kind, base, bytes, map_bytes, kind != REGION_MAPPED};
    fake.regions = r;
    if (kind == REGION_DEVICE || kind == REGION_MAPPED)
        fake.bytes_in_use += bytes;
    return r;
}

static struct region *region_at(uint64_t base, enum region_kind kind)
{
    struct region *r = fake.regions;

    while (r && ((uint64_t)(uintptr_t)r->base != base || r->kind != kind))
        r = r->next;
    return r;
}

static void region_drop(struct region *r)
{
    struct region **at = &fake.regions;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (r->kind == REGION_DEVICE || r->kind == REGION_MAPPED)
        fake.bytes_in_use -= r->bytes;
    free(r);
}

static int map_new(enum region_kind kind, size_t bytes, void **out)
{
    size_t room = (bytes + SLACK + 4095) & ~(size_t)4095;
    void *p = bytes && bytes < (size_t)1 << 40 ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;

    if (!bytes)
        return TD_CUDA_INVALID_VALUE;
    if (p == MAP_FAILED)
        return TD_CUDA_OUT_OF_MEMORY;
    memset(p, FRESH, room);
    *out = (uint8_t *)p + (kind == REGION_DEVICE ? DEVICE_ALIGN : 0); /* aligned as the driver's small allocations, no better */
    region_add(kind, *out, bytes, room);
    return 0;
}

static int unmap(uint64_t base, enum region_kind kind)
{
    struct region *r = region_at(base, kind);

    if (!r)
        return TD_CUDA_INVALID_VALUE;
    streams_finish_all(); /* cuMemFree waits for the device */
    munmap((void *)((uintptr_t)r->base & ~(uintptr_t)4095), r->map_bytes);
    region_drop(r);
    return 0;
}

/* ---- allocation ------------------------------------------------------------------------------ */

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    void *p = NULL;
    int rc = enter("cuMemAlloc_v2", NEED_CONTEXT);

    if (!rc && capture_forbids())
        rc = TD_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    if (!rc)
        rc = fault_due("alloc");
    if (!rc)
        rc = map_new(REGION_DEVICE, bytes, &p);
    *address = (uint64_t)(uintptr_t)p;
    return leave(rc);
}

int cuMemFree_v2(uint64_t address)
{
    int rc = enter("cuMemFree_v2", NEED_CONTEXT);

    if (!rc && any_capture())
        rc = TD_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    if (!rc && address)
        rc = unmap(address, REGION_DEVICE);
    return leave(rc);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    int rc = enter("cuMemGetInfo_v2", NEED_CONTEXT);

    *total_bytes = (size_t)1 << 34;
    *free_bytes = *total_bytes - fake.bytes_in_use;
    return leave(rc);
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    int rc = enter("cuMemHostAlloc", NEED_CONTEXT);

    (void)flags;
    *p = NULL;
    if (!rc && any_capture())
        rc = TD_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    if (!rc)
        rc = fault_due("alloc");
    return leave(rc ? rc : map_new(REGION_PINNED, bytes, p));
}

int cuMemFreeHost(void *p)
{
    int rc = enter("cuMemFreeHost", NEED_CONTEXT);

    return leave(rc ? rc : unmap((uint64_t)(uintptr_t)p, REGION_PINNED));
}

int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    int rc = enter("cuMemHostRegister_v2", NEED_CONTEXT);

    (void)flags;
    if (!rc)
        region_add(REGION_PINNED, p, bytes, 0);
    return leave(rc);
}

int cuMemHostUnregister(void *p)
{
    int rc = enter("cuMemHostUnregister", NEED_CONTEXT);
    struct region *r = region_at((uint64_t)(uintptr_t)p, REGION_PINNED);

    if (!rc && !r)
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc)
        region_drop(r);
    return leave(rc);
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *p, unsigned flags)
{
    int rc = enter("cuMemHostGetDevicePointer_v2", NEED_CONTEXT);

    (void)flags;
    *address = (uint64_t)(uintptr_t)p;
    return leave(rc ? rc : is_pinned(p, 1) ? 0 : TD_CUDA_INVALID_VALUE);
}

/* ---- address ranges -------------------------------------------------------------------------- */

static bool whole(uint64_t x)
{
    return x && x % GRANULE == 0;
}

int cuMemGetAllocationGranularity(size_t *bytes, const struct td_cuda_allocation *what, int option)
{
    int rc = enter("cuMemGetAllocationGranularity", NEED_INIT);

    (void)option;
    *bytes = GRANULE;
    return leave(rc ? rc : what->type == TD_CUDA_ALLOCATION_PINNED && what->location.type == TD_CUDA_LOCATION_DEVICE ? 0 : TD_CUDA_INVALID_VALUE);
}

int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint, unsigned long long flags)
{
    int rc = enter("cuMemAddressReserve", NEED_CONTEXT);
    size_t room = bytes + GRANULE;
    uint8_t *p;

    (void)alignment, (void)hint, (void)flags;
    if (!rc && !whole(bytes))
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc && (p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) != MAP_FAILED) {
        uint8_t *base = (uint8_t *)(((uintptr_t)p + GRANULE - 1) & ~(uintptr_t)(GRANULE - 1));

        if (base != p)
            munmap(p, (size_t)(base - p));
        munmap(base + bytes, room - (size_t)(base - p) - bytes);
        region_add(REGION_RESERVED, base, bytes, bytes);
        *address = (uint64_t)(uintptr_t)base;
    } else if (!rc) {
        rc = TD_CUDA_OUT_OF_MEMORY;
    }
    return leave(rc);
}

int cuMemAddressFree(uint64_t address, size_t bytes)
{
    int rc = enter("cuMemAddressFree", NEED_CONTEXT);
    struct region *r = region_at(address, REGION_RESERVED);

    return leave(rc ? rc : r && r->bytes == bytes ? unmap(address, REGION_RESERVED) : TD_CUDA_INVALID_VALUE);
}

/* A handle is the size in granules and nothing else: cuMemMap makes the memory. */
int cuMemCreate(unsigned long long *handle, size_t bytes, const struct td_cuda_allocation *what, unsigned long long flags)
{
    int rc = enter("cuMemCreate", NEED_CONTEXT);

    (void)what, (void)flags;
    if (!rc)
        rc = fault_due("alloc");
    *handle = bytes / GRANULE;
    return leave(rc ? rc : whole(bytes) ? 0 : TD_CUDA_INVALID_VALUE);
}

int cuMemRelease(unsigned long long handle)
{
    int rc = enter("cuMemRelease", NEED_CONTEXT);

    return leave(rc ? rc : handle ? 0 : TD_CUDA_INVALID_VALUE);
}

int cuMemMap(uint64_t address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags)
{
    int rc = enter("cuMemMap", NEED_CONTEXT);

    (void)flags;
    if (!rc && (!whole(address) || !whole(bytes) || offset || bytes != handle * GRANULE || !region_of(address, bytes, true)))
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc)
        region_add(REGION_MAPPED, (void *)(uintptr_t)address, bytes, bytes);
    return leave(rc);
}

int cuMemSetAccess(uint64_t address, size_t bytes, const struct td_cuda_access *access, size_t n)
{
    int rc = enter("cuMemSetAccess", NEED_CONTEXT);
    struct region *r = region_at(address, REGION_MAPPED);

    if (!rc && (!r || r->bytes != bytes || n != 1 || access->flags != TD_CUDA_ACCESS_READWRITE))
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc && !mprotect(r->base, bytes, PROT_READ | PROT_WRITE)) {
        memset(r->base, FRESH, bytes);
        r->open = true;
    }
    return leave(rc);
}

int cuMemUnmap(uint64_t address, size_t bytes)
{
    int rc = enter("cuMemUnmap", NEED_CONTEXT);
    struct region *r = region_at(address, REGION_MAPPED);

    if (!rc && (!r || r->bytes != bytes))
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc) {
        bool in_use = streams_touch(r->base, bytes);

        streams_finish_all();
        if (in_use) /* the driver unmaps at once; work under way then faults */
            fake.sticky = TD_CUDA_LAUNCH_FAILED;
        madvise(r->base, bytes, MADV_DONTNEED);
        mprotect(r->base, bytes, PROT_NONE);
        region_drop(r);
    }
    return leave(rc);
}

/* ---- what an address is ---------------------------------------------------------------------- */

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address)
{
    int rc = enter("cuMemGetAddressRange_v2", NEED_CONTEXT);
    struct region *r = region_of(address, 1, false);

    if (!rc && !r)
        rc = TD_CUDA_NOT_FOUND;
    if (!rc && base)
        *base = (uint64_t)(uintptr_t)r->base;
    if (!rc && bytes)
        *bytes = r->bytes;
    return leave(rc);
}

/* MEMORY_TYPE 2, DEVICE_POINTER 3, HOST_POINTER 4, RANGE_START_ADDR 11, RANGE_SIZE 12 */
static int attribute_of(void *value, int attribute, uint64_t address)
{
    struct region *r = region_of(address, 1, true);

    if (!r && attribute == 2)
        *(unsigned *)value = 0;
    else if (!r)
        *(uint64_t *)value = 0;
    else if (attribute == 2)
        *(unsigned *)value = r->kind == REGION_PINNED ? TD_CUDA_MEMORY_HOST : TD_CUDA_MEMORY_DEVICE;
    else if (attribute == 3 || (attribute == 4 && r->kind == REGION_PINNED))
        *(uint64_t *)value = address;
    else if (attribute == 11)
        *(uint64_t *)value = (uint64_t)(uintptr_t)r->base;
    else if (attribute == 12)
        *(uint64_t *)value = r->bytes;
    else
        return TD_CUDA_INVALID_VALUE;
    return 0;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    int rc = enter("cuPointerGetAttribute", NEED_CONTEXT);

    return leave(rc ? rc : region_of(address, 1, true) ? attribute_of(value, attribute, address) : TD_CUDA_INVALID_VALUE);
}

/* As in the real driver, an address that is no pointer gives zeros and no error. */
int cuPointerGetAttributes(unsigned n, int *attributes, void **values, uint64_t address)
{
    int rc = enter("cuPointerGetAttributes", NEED_CONTEXT);

    for (unsigned i = 0; !rc && i < n; i++)
        rc = attribute_of(values[i], attributes[i], address);
    return leave(rc);
}
