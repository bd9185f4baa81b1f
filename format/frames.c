/* frames.c - write and walk the frames of a stream file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/frames.h"

#include <string.h>

#include "common/memory.h"
#include "format/bytes.h"

#define SKIP_MAGIC 0x184D2A5Du
#define SKIP_BODY (TD_FRAME_HEAD - 8)
#define PAD_MAGIC 0x184D2A50u
#define PAD_HEAD 8u /* magic and length of what zstd skips */
#define COMP_MAX ZSTD_COMPRESSBOUND((size_t)TD_FRAME_MAX_RAW)

/* ---- header --------------------------------------------------------------------------------------------------------- */

static const uint8_t MARK[12] = {0x5D, 0x2A, 0x4D, 0x18, SKIP_BODY, 0, 0, 0, 'T', 'D', 'F', 'R'};

void td_frame_head_put(const struct td_frame_head *h, uint8_t out[TD_FRAME_HEAD])
{
    memset(out, 0, TD_FRAME_HEAD);
    memcpy(out, MARK, sizeof MARK);
    td_put16(out + 12, TD_FRAME_VERSION);
    td_put16(out + 14, h->kind);
    td_put64(out + 16, h->number);
    td_put32(out + 24, h->records);
    td_put32(out + 28, h->raw_len);
    td_put32(out + 32, h->comp_len);
    td_put64(out + 40, h->sum);
    td_put64(out + 48, td_hash64(out + 8, 40));
}

int td_frame_head_get(const uint8_t in[TD_FRAME_HEAD], struct td_frame_head *h)
{
    if (memcmp(in, MARK, sizeof MARK) || td_get64(in + 48) != td_hash64(in + 8, 40))
        return TD_ECORRUPT;
    if (td_get16(in + 12) != TD_FRAME_VERSION)
        return TD_EVERSION;
    h->kind = td_get16(in + 14);
    h->number = td_get64(in + 16);
    h->records = td_get32(in + 24);
    h->raw_len = td_get32(in + 28);
    h->comp_len = td_get32(in + 32);
    h->sum = td_get64(in + 40);
    return h->raw_len <= TD_FRAME_MAX_RAW && h->comp_len <= COMP_MAX ? TD_OK : TD_ECORRUPT;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

int td_frame_copy(struct td_sink *s, const struct td_frame_head *h, const void *comp, struct td_error *err)
{
    uint8_t head[TD_FRAME_HEAD];

    td_frame_head_put(h, head);
    return td_sink_write(s, head, sizeof head, comp, h->comp_len, err);
}

/* Text of one letter shrinks by thousands, and a reader refuses what stands for so much. Bytes that zstd
 * skips make up for it. Returns the new length; room has at least raw bytes. */
static size_t pad_frame(uint8_t *room, size_t len, size_t raw)
{
    const size_t least = raw / TD_FRAMES_RATIO + PAD_HEAD;

    if (len + TD_FRAME_HEAD >= least)
        return len;
    td_put32(room + len, PAD_MAGIC);
    td_put32(room + len + 4, (uint32_t)(least - len - PAD_HEAD));
    memset(room + len + PAD_HEAD, 0, least - len - PAD_HEAD);
    return least;
}

int td_frame_write(struct td_sink *s, ZSTD_CCtx *z, int level, const struct td_frame_head *h, const void *raw, size_t n,
                   struct td_buf *scratch, struct td_error *err)
{
    struct td_frame_head out = *h;
    size_t got;
    char *room;

    if (n > TD_FRAME_MAX_RAW)
        return td_fail(err, TD_ELIMIT, "%s: a record of %zu bytes is more than the maximum of %u", s->path, n, TD_FRAME_MAX_RAW);
    td_buf_clear(scratch);
    room = td_buf_reserve(scratch, ZSTD_compressBound(n));
    if (!room)
        return td_fail(err, TD_ENOMEM, "%s: no memory to compress %zu bytes", s->path, n);
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    got = ZSTD_compress2(z, room, ZSTD_compressBound(n), raw, n);
    if (ZSTD_isError(got))
        return td_fail(err, TD_EIO, "%s: zstd: %s", s->path, ZSTD_getErrorName(got));
    got = pad_frame((uint8_t *)room, got, n);
    out.raw_len = (uint32_t)n;
    out.comp_len = (uint32_t)got;
    out.sum = td_hash64(room, got);
    return td_frame_copy(s, &out, room, err);
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static int start_frames(struct td_frames *f, uint16_t kind, struct td_error *err)
{
    f->kind = kind;
    td_buf_init(&f->comp, COMP_MAX);
    td_buf_init(&f->raw, TD_FRAME_MAX_RAW);
    f->z = ZSTD_createDCtx();
    return f->z ? TD_OK : td_fail(err, TD_ENOMEM, "%s: out of memory", f->src.name);
}

int td_frames_open(struct td_frames *f, const char *path, uint16_t kind, struct td_error *err)
{
    int rc;

    memset(f, 0, sizeof *f);
    f->src.fd = -1;
    rc = td_source_open(&f->src, path, err);
    return rc ? rc : start_frames(f, kind, err);
}

int td_frames_memory(struct td_frames *f, const void *data, size_t n, uint16_t kind, struct td_error *err)
{
    memset(f, 0, sizeof *f);
    td_source_memory(&f->src, data, n, "memory");
    return start_frames(f, kind, err);
}

void td_frames_close(struct td_frames *f)
{
    td_source_close(&f->src);
    ZSTD_freeDCtx(f->z);
    f->z = NULL;
    td_buf_release(&f->comp);
    td_buf_release(&f->raw);
}

/* Read the header at `at`. TD_OK: complete, with a valid checksum, and of the right kind. */
static int frame_head_at(struct td_frames *f, uint64_t at, struct td_frame_head *h)
{
    uint8_t raw[TD_FRAME_HEAD];
    int rc = td_source_read(&f->src, at, raw, sizeof raw, NULL);

    if (!rc)
        rc = td_frame_head_get(raw, h);
    if (!rc && f->kind && h->kind != f->kind)
        rc = TD_ECORRUPT;
    return rc;
}

/* The next offset >= at with a valid header, or the end of the file. */
static uint64_t find_frame_head(struct td_frames *f, uint64_t at)
{
    struct td_frame_head h;

    for (;;) {
        at = td_source_find(&f->src, at, MARK, sizeof MARK);
        if (at >= f->src.size || frame_head_at(f, at, &h) != TD_ECORRUPT)
            return at + TD_FRAME_HEAD <= f->src.size ? at : f->src.size;
        at++;
    }
}

/* The bytes at `at` are bad: skip to the next header. A tail that may be the beginning of a frame
 * is torn, not corrupt. */
static int skip_damage(struct td_frames *f, uint64_t from, uint64_t at, const char *what,
                       bool maybe_torn, struct td_error *err)
{
    uint64_t next = find_frame_head(f, from);
    bool torn = maybe_torn && next >= f->src.size;

    f->at = next;
    f->in_damage = true;
    if (torn) {
        f->torn = true;
        return td_fail(err, TD_ETRUNCATED, "%s: frame %llu at offset %llu is incomplete (%s); \"{fixture} repair\" cuts it off",
                       f->src.name, (unsigned long long)f->expect, (unsigned long long)at, what);
    }
    f->bad++;
    return td_fail(err, TD_ECORRUPT, "%s: frame %llu at offset %llu: %s; %llu bytes skipped", f->src.name,
                   (unsigned long long)f->expect, (unsigned long long)at, what, (unsigned long long)(next - at));
}

/* Where to look for the next frame behind a whole one whose content is bad: in it, for its length may be wrong.
 * Frames that a writer made do not overlap, so those that were read in vain are no more than the file. Where
 * they are, somebody made them so that each is read again and again: then the lengths are believed. */
static uint64_t behind_bad(struct td_frames *f, uint64_t at)
{
    f->read_in_vain += f->head.comp_len;
    return at + TD_FRAME_HEAD + (f->read_in_vain > f->src.size ? f->head.comp_len : 0);
}

/* Reading takes as long as what the frames stand for, and that may be thousands of times the file. */
static int check_ratio(struct td_frames *f, struct td_error *err)
{
    f->raw_seen += f->head.raw_len;
    f->stored_seen += TD_FRAME_HEAD + f->head.comp_len;
    if (f->raw_seen <= TD_FRAMES_FREE || f->raw_seen / TD_FRAMES_RATIO <= f->stored_seen)
        return TD_OK;
    return td_fail(err, TD_ENOMEM, "%s: frame %llu: %llu bytes stand for %llu, and a stream may hold %u MiB, or %d times "
                                   "its size, as {record} writes it; record it again", f->src.name,
                   (unsigned long long)f->head.number, (unsigned long long)f->stored_seen,
                   (unsigned long long)f->raw_seen, TD_FRAMES_FREE >> 20, TD_FRAMES_RATIO);
}

static int unpack_frame(struct td_frames *f, struct td_error *err)
{
    const struct td_frame_head *h = &f->head;
    uint64_t at = f->at;
    size_t got;
    int rc;

    td_buf_clear(&f->comp);
    td_buf_clear(&f->raw);
    if (h->comp_len > f->src.size - at - TD_FRAME_HEAD)
        return skip_damage(f, at + TD_FRAME_HEAD, at, "the file ends within it", true, err);
    if (td_memory_room((uint64_t)h->comp_len + h->raw_len, f->src.name, err))
        return TD_ENOMEM;
    if (!td_buf_reserve(&f->comp, h->comp_len))
        return td_fail(err, TD_ENOMEM, "%s: no memory for a frame of %u bytes", f->src.name, h->comp_len);
    rc = td_source_read(&f->src, at + TD_FRAME_HEAD, f->comp.data, h->comp_len, err);
    if (rc)
        return rc;
    if (td_hash64(f->comp.data, h->comp_len) != h->sum)
        return skip_damage(f, behind_bad(f, at), at, "checksum of the compressed bytes differs", false, err);
    /* before memory is allocated for that length */
    if (ZSTD_getFrameContentSize(f->comp.data, h->comp_len) != h->raw_len)
        return skip_damage(f, behind_bad(f, at), at, "zstd cannot decompress it to the length given", false, err);
    if (check_ratio(f, err))
        return TD_ENOMEM;
    if (!td_buf_reserve(&f->raw, h->raw_len))
        return td_fail(err, TD_ENOMEM, "%s: no memory for a frame of %u bytes", f->src.name, h->raw_len);
    got = ZSTD_decompressDCtx(f->z, f->raw.data, h->raw_len, f->comp.data, h->comp_len);
    if (ZSTD_isError(got) || got != h->raw_len)
        return skip_damage(f, behind_bad(f, at), at, "zstd cannot decompress it to the length given", false, err);
    f->raw.len = got;
    f->raw.data[got] = '\0';
    f->comp.len = h->comp_len;
    f->head_at = at;
    f->at = f->good_end = at + TD_FRAME_HEAD + h->comp_len;
    f->expect = h->number + 1;
    f->in_damage = false;
    return 1;
}

int td_frames_next(struct td_frames *f, struct td_error *err)
{
    uint64_t left = f->src.size - f->at;
    int rc;

    if (!left)
        return 0;
    rc = frame_head_at(f, f->at, &f->head);
    if (rc == TD_EVERSION)
        return td_fail(err, TD_EVERSION, "%s: frame at offset %llu is of a later version; a newer tapedeck reads it", f->src.name,
                       (unsigned long long)f->at);
    if (rc == TD_ETRUNCATED || rc == TD_ECORRUPT)
        return skip_damage(f, f->at + 1, f->at,
                           left < TD_FRAME_HEAD ? "the file ends within its header"
                                                : "no valid header here",
                           left < TD_FRAME_HEAD, err);
    if (rc)
        return td_fail(err, rc, "%s: cannot read at offset %llu", f->src.name, (unsigned long long)f->at);
    if (f->head.number != f->expect && !f->in_damage) { /* report it once, then read on from here */
        rc = td_fail(err, TD_ECORRUPT, "%s: frame %llu stands at offset %llu where frame %llu is due; frames are missing",
                     f->src.name, (unsigned long long)f->head.number, (unsigned long long)f->at, (unsigned long long)f->expect);
        f->expect = f->head.number;
        f->bad++;
        return rc;
    }
    f->expect = f->head.number;
    return unpack_frame(f, err);
}
