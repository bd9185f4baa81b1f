/* pack.c - write the blob pack: encodings, frames, index.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/pack.h"

#include <stdlib.h>
#include <string.h>

#include "format/bytes.h"

static const uint8_t MARK[4] = {'T', 'D', 'B', 'L'};
static const uint8_t END_MARK[8] = {'T', 'D', 'B', 'L', 'E', 'N', 'D', '1'};

/* ---- header --------------------------------------------------------------------------------------------------------- */

void td_pack_head_put(const struct td_pack_head *h, uint8_t out[TD_PACK_HEAD])
{
    memset(out, 0, TD_PACK_HEAD);
    memcpy(out, MARK, sizeof MARK);
    td_put16(out + 4, TD_PACK_VERSION);
    out[6] = h->encoding;
    td_put64(out + 8, h->raw_len);
    td_put64(out + 16, h->stored_len);
    td_put64(out + 24, h->hash.hi);
    td_put64(out + 32, h->hash.lo);
    td_put64(out + 40, h->sum);
    td_put64(out + 56, td_hash64(out, 56));
}

int td_pack_head_get(const uint8_t in[TD_PACK_HEAD], struct td_pack_head *h)
{
    if (memcmp(in, MARK, sizeof MARK) || td_get64(in + 56) != td_hash64(in, 56))
        return TD_ECORRUPT;
    if (td_get16(in + 4) != TD_PACK_VERSION)
        return TD_EVERSION;
    h->encoding = in[6];
    h->raw_len = td_get64(in + 8);
    h->stored_len = td_get64(in + 16);
    h->hash.hi = td_get64(in + 24);
    h->hash.lo = td_get64(in + 32);
    h->sum = td_get64(in + 40);
    return h->raw_len <= TD_PACK_MAX_RAW && h->stored_len <= ZSTD_COMPRESSBOUND(TD_PACK_MAX_RAW) ? TD_OK : TD_ECORRUPT;
}

/* ---- index ---------------------------------------------------------------------------------------------------------- */

static struct td_pack_entry *index_slot(const struct td_pack_index *ix, struct td_hash hash)
{
    size_t i = (size_t)hash.lo & (ix->cap - 1);

    while (ix->slot[i].at != UINT64_MAX && !td_hash_eq(ix->slot[i].hash, hash))
        i = (i + 1) & (ix->cap - 1);
    return &ix->slot[i];
}

static int index_grow(struct td_pack_index *ix)
{
    struct td_pack_index big = {NULL, ix->n, ix->cap ? ix->cap * 2 : 256};
    size_t i;

    big.slot = malloc(big.cap * sizeof *big.slot);
    if (!big.slot)
        return TD_ENOMEM;
    for (i = 0; i < big.cap; i++)
        big.slot[i].at = UINT64_MAX;
    for (i = 0; i < ix->cap; i++)
        if (ix->slot[i].at != UINT64_MAX)
            *index_slot(&big, ix->slot[i].hash) = ix->slot[i];
    free(ix->slot);
    *ix = big;
    return TD_OK;
}

int td_pack_index_add(struct td_pack_index *ix, const struct td_pack_entry *e)
{
    struct td_pack_entry *slot;

    if (ix->n >= TD_PACK_MAX_BLOBS)
        return TD_ELIMIT;
    if (ix->n * 3 >= ix->cap * 2 && index_grow(ix))
        return TD_ENOMEM;
    slot = index_slot(ix, e->hash);
    if (slot->at == UINT64_MAX) {
        *slot = *e;
        ix->n++;
    }
    return TD_OK;
}

const struct td_pack_entry *td_pack_index_find(const struct td_pack_index *ix, struct td_hash hash)
{
    const struct td_pack_entry *slot = ix->cap ? index_slot(ix, hash) : NULL;

    return slot && slot->at != UINT64_MAX ? slot : NULL;
}

void td_pack_index_release(struct td_pack_index *ix)
{
    free(ix->slot);
    memset(ix, 0, sizeof *ix);
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

static void split_planes(const uint8_t *in, size_t n, uint8_t *out)
{
    size_t half = n / 2, i;

    for (i = 0; i < half; i++) {
        out[i] = in[2 * i];
        out[half + i] = in[2 * i + 1];
    }
    if (n & 1)
        out[n - 1] = in[n - 1];
}

int td_pack_copy(struct td_sink *s, struct td_pack_index *ix, const struct td_pack_head *h,
                 const void *stored, struct td_error *err)
{
    struct td_pack_entry e = {h->hash, s->size, h->raw_len};
    uint8_t head[TD_PACK_HEAD];
    int rc;

    td_pack_head_put(h, head);
    rc = td_sink_write(s, head, sizeof head, stored, h->stored_len, err);
    if (!rc && ix && (rc = td_pack_index_add(ix, &e)))
        td_fail(err, rc, "%s: too many blobs for one pack or no memory for its index", s->path);
    return rc;
}

int td_pack_write(struct td_sink *s, struct td_pack_index *ix, ZSTD_CCtx *z, int level, struct td_hash hash, const void *raw,
                  size_t n, int elem_bytes, struct td_buf *scratch, struct td_error *err)
{
    struct td_pack_head h = {TD_PACK_RAW, n, n, hash, 0};
    bool planes = elem_bytes == 2 && n >= 64;
    size_t bound = ZSTD_compressBound(n), got = n;
    const void *from = raw, *stored = raw;
    char *room;

    if (n > TD_PACK_MAX_RAW)
        return td_fail(err, TD_ELIMIT, "%s: a blob of %zu bytes is more than the maximum of 4 GiB", s->path, n);
    td_buf_clear(scratch);
    room = td_buf_reserve(scratch, bound + (planes ? n : 0));
    if (!room)
        return td_fail(err, TD_ENOMEM, "%s: no memory to compress a blob of %zu bytes", s->path, n);
    if (planes) {
        split_planes(raw, n, (uint8_t *)room + bound);
        from = room + bound;
    }
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 0); /* the header holds one */
    if (n >= 64 && elem_bytes)
        got = ZSTD_compress2(z, room, bound, from, n);
    if (!ZSTD_isError(got) && got < n - n / 32) { /* else decoding costs more than it saves */
        h.encoding = planes ? TD_PACK_PLANES : TD_PACK_ZSTD;
        h.stored_len = got;
        stored = room;
    }
    h.sum = td_hash64(stored, h.stored_len);
    return td_pack_copy(s, ix, &h, stored, err);
}

int td_pack_finish(struct td_sink *s, const struct td_pack_index *ix, struct td_error *err)
{
    struct td_pack_head h = {.encoding = TD_PACK_INDEX};
    struct td_buf b = TD_BUF_INIT(TD_PACK_MAX_BLOBS * 32 + 64);
    uint8_t end[TD_PACK_TRAILER];
    uint8_t *p = (uint8_t *)td_buf_reserve(&b, ix->n * 32 + 1);
    uint64_t at = s->size;
    size_t i;
    int rc;

    if (!p)
        return td_fail(err, TD_ENOMEM, "%s: no memory for the index", s->path);
    for (i = 0; i < ix->cap; i++) {
        const struct td_pack_entry *e = &ix->slot[i];

        if (e->at == UINT64_MAX)
            continue;
        td_put64(p, e->hash.hi);
        td_put64(p + 8, e->hash.lo);
        td_put64(p + 16, e->at);
        td_put64(p + 24, e->raw_len);
        p += 32;
    }
    h.raw_len = h.stored_len = ix->n * 32;
    h.hash = td_hash_bytes(b.data, h.raw_len);
    h.sum = td_hash64(b.data, h.raw_len);
    rc = td_pack_copy(s, NULL, &h, b.data, err);
    td_put64(end, at);
    memcpy(end + 8, END_MARK, 8);
    td_put64(end + 16, td_hash64(end, 16));
    if (!rc)
        rc = td_sink_write(s, end, sizeof end, NULL, 0, err);
    td_buf_release(&b);
    return rc;
}
