/* fatbin.c - NVIDIA's fat binaries: containers, entries, unpacking.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/fatbin.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "kernels/gpucode/elf.h"

#define MAGIC 0xBA55ED50u
#define HEADER 16
#define ENTRY 64                   /* the least bytes of an entry's header */
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_A 0x100000u           /* sm_90a: runs on that very architecture */
#define FLAG_F 0x200000u           /* sm_100f: and on later ones of its family */

/* What the formats can reach at most: a claim beyond it need not be tried. LZ4 by its design; of
 * zstd a run of one byte gives more, code never does. */
#define RATIO_LZ4 255u
#define RATIO_ZSTD 4096u

bool td_fatbin_is(const void *data, size_t n)
{
    return n >= 4 && td_le32(data) == MAGIC;
}

int td_fatbin_next(const uint8_t *data, size_t n, size_t *at, struct td_fatbin_container *out, struct td_error *err)
{
    const uint8_t *p;
    uint64_t size;

    while (n - *at >= 4 && td_le32(data + *at) == 0)
        *at += 4;
    if (n - *at < 4)
        return 0;
    p = data + *at;
    if (td_le32(p) != MAGIC)
        return td_fail(err, TD_ECORRUPT,
                       "at byte %zu of the GPU code stands %08x, not the beginning of a fat binary",
                       *at, td_le32(p));
    if (n - *at < HEADER)
        return td_fail(err, TD_ETRUNCATED, "the GPU code ends inside a fat binary's header; was the file copied whole?");
    size = td_le64(p + 8);
    if (td_le16(p + 4) != 1 || td_le16(p + 6) != HEADER)
        return td_fail(
            err, TD_EVERSION,
            "a fat binary of version %u with a header of %u bytes; only version 1 with %d is known",
            td_le16(p + 4), td_le16(p + 6), HEADER);
    if (size > n - *at - HEADER)
        return td_fail(err, TD_ETRUNCATED,
                       "a fat binary claims %llu bytes, %zu are there; was the file copied whole?",
                       (unsigned long long)size, n - *at - HEADER);
    *out = (struct td_fatbin_container){p, HEADER + (size_t)size};
    *at += out->n;
    return 1;
}

static int read_packing(const uint8_t *h, struct td_fatbin_entry *e, struct td_error *err)
{
    uint64_t flags = td_le64(h + 40);
    uint32_t packed = td_le32(h + 16);

    e->variant = flags & FLAG_A ? 'a' : flags & FLAG_F ? 'f' : 0;
    e->packing = flags & FLAG_ZSTD  ? TD_PACKING_ZSTD
                 : flags & FLAG_LZ4 ? TD_PACKING_LZ4
                 : packed           ? TD_PACKING_OTHER
                                    : TD_PACKING_NONE;
    e->bytes = e->payload_bytes;
    if (e->packing == TD_PACKING_NONE)
        return TD_OK;
    e->bytes = td_le64(h + 56);
    if (packed > e->payload_bytes)
        return td_fail(err, TD_ECORRUPT, "an entry claims %u packed bytes in a payload of %zu", packed, e->payload_bytes);
    e->payload_bytes = packed;
    return TD_OK;
}

int td_fatbin_entry_next(const struct td_fatbin_container *c, size_t *at, struct td_fatbin_entry *out, struct td_error *err)
{
    const uint8_t *h;
    uint32_t header;
    uint64_t size;
    int rc;

    if (*at < HEADER)
        *at = HEADER;
    if (*at >= c->n)
        return 0;
    h = c->data + *at;
    if (c->n - *at < ENTRY)
        return td_fail(err, TD_ETRUNCATED, "a fat binary ends inside the header of an entry");
    header = td_le32(h + 4);
    size = td_le64(h + 8);
    if (header < ENTRY || header > c->n - *at || size > c->n - *at - header)
        return td_fail(
            err, TD_ECORRUPT,
            "an entry of a fat binary claims a header of %u and %llu bytes, %zu are left", header,
            (unsigned long long)size, c->n - *at);
    *out = (struct td_fatbin_entry){.kind = td_le16(h),
                                    .sm = (int)(td_le32(h + 28) & 0xffff),
                                    .payload = h + header,
                                    .payload_bytes = (size_t)size};
    rc = read_packing(h, out, err);
    *at += header + (size_t)size;
    return rc ? rc : 1;
}

/* The number of bytes that came out, or -1. */
static int64_t unpack_payload(const struct td_fatbin_entry *e, uint8_t *to)
{
    size_t n;

    if (e->packing == TD_PACKING_LZ4)
        return e->payload_bytes > INT32_MAX
                   ? -1
                   : LZ4_decompress_safe((const char *)e->payload, (char *)to,
                                         (int)e->payload_bytes, (int)e->bytes);
    if (e->packing == TD_PACKING_ZSTD) {
        n = ZSTD_decompress(to, (size_t)e->bytes, e->payload, e->payload_bytes);
        return ZSTD_isError(n) ? -1 : (int64_t)n;
    }
    memcpy(to, e->payload, e->payload_bytes);
    return (int64_t)e->payload_bytes;
}

static int check_claim(const struct td_fatbin_entry *e, struct td_error *err)
{
    uint64_t ratio = e->packing == TD_PACKING_LZ4 ? RATIO_LZ4 : RATIO_ZSTD;

    if (e->packing == TD_PACKING_OTHER)
        return td_fail(err, TD_EUNSUPPORTED,
                       "an entry for sm_%d is packed in a way that is not known; build it with "
                       "nvcc --compress-mode=none",
                       e->sm);
    if (e->bytes > TD_FATBIN_MAX_CODE || (e->packing && e->bytes / ratio > e->payload_bytes))
        return td_fail(err, TD_ELIMIT, "an entry for sm_%d of %zu bytes claims to become %llu",
                       e->sm, e->payload_bytes, (unsigned long long)e->bytes);
    return TD_OK;
}

int td_fatbin_unpack(const struct td_fatbin_entry *e, uint8_t **out, struct td_error *err)
{
    int rc = check_claim(e, err);
    uint8_t *to;

    *out = NULL;
    if (rc)
        return rc;
    if (!(to = malloc(e->bytes ? (size_t)e->bytes : 1)))
        return td_fail(err, TD_ENOMEM, "out of memory (%llu bytes of GPU code)", (unsigned long long)e->bytes);
    if (unpack_payload(e, to) != (int64_t)e->bytes) {
        free(to);
        return td_fail(err, TD_ECORRUPT, "an entry for sm_%d does not unpack (%s); was the file copied whole?", e->sm,
                       e->packing == TD_PACKING_LZ4 ? "LZ4" : "zstd");
    }
    *out = to;
    return TD_OK;
}
