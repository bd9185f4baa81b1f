/* pack_read.c - read the blob pack: index, walk, decode.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <zstd_errors.h>

#include "common/log.h"
#include "common/memory.h"
#include "format/bytes.h"
#include "format/pack.h"

static const uint8_t MARK[6] = {'T', 'D', 'B', 'L', TD_PACK_VERSION, 0};
static const uint8_t END_MARK[8] = {'T', 'D', 'B', 'L', 'E', 'N', 'D', '1'};

static int blob_head_at(const struct td_pack *pk, uint64_t at, struct td_pack_head *h)
{
    uint8_t raw[TD_PACK_HEAD];
    int rc = td_source_read(&pk->src, at, raw, sizeof raw, NULL);

    return rc ? rc : td_pack_head_get(raw, h);
}

/* ---- walking -------------------------------------------------------------------------------------------------------- */

/* Is there a trailer at `at`? */
static bool trailer_at(const struct td_pack *pk, uint64_t at)
{
    uint8_t raw[TD_PACK_TRAILER];

    return !td_source_read(&pk->src, at, raw, sizeof raw, NULL) && !memcmp(raw + 8, END_MARK, 8) &&
           td_get64(raw + 16) == td_hash64(raw, 16);
}

static uint64_t find_blob_head(const struct td_pack *pk, uint64_t at)
{
    struct td_pack_head h;

    for (;;) {
        at = td_source_find(&pk->src, at, MARK, sizeof MARK);
        if (at >= pk->src.size || blob_head_at(pk, at, &h) == TD_OK)
            return at;
        at++;
    }
}

static int skip_damaged_blob(struct td_pack *pk, uint64_t *at, uint64_t from, const char *what,
                             bool maybe_torn, struct td_error *err)
{
    uint64_t bad = *at, next = find_blob_head(pk, from);

    *at = next;
    if (maybe_torn && next >= pk->src.size) {
        pk->torn = true;
        return td_fail(err, TD_ETRUNCATED, "%s: the frame at offset %llu is incomplete (%s); \"{fixture} repair\" cuts it off",
                       pk->src.name, (unsigned long long)bad, what);
    }
    pk->bad++;
    return td_fail(err, TD_ECORRUPT, "%s: offset %llu: %s; %llu bytes skipped", pk->src.name, (unsigned long long)bad, what,
                   (unsigned long long)(next - bad));
}

/* Where to look for the next blob behind a whole one with a wrong checksum: in it, for its length may be wrong,
 * but not again and again (frames.c, behind_bad()). */
static uint64_t behind_bad(struct td_pack *pk, uint64_t at, const struct td_pack_head *h)
{
    pk->read_in_vain += h->stored_len;
    return at + TD_PACK_HEAD + (pk->read_in_vain > pk->src.size ? h->stored_len : 0);
}

int td_pack_walk(struct td_pack *pk, uint64_t *at, struct td_pack_head *h, uint64_t *frame_at,
                 struct td_buf *stored, struct td_error *err)
{
    uint64_t left = pk->src.size - *at;
    int rc;

    if (left >= TD_PACK_TRAILER && trailer_at(pk, *at)) {
        *at += TD_PACK_TRAILER;
        pk->good_end = *at;
        left -= TD_PACK_TRAILER;
    }
    if (!left)
        return 0;
    rc = blob_head_at(pk, *at, h);
    if (rc == TD_EVERSION)
        return td_fail(err, rc, "%s: frame at offset %llu is of a later version; a newer tapedeck reads it", pk->src.name,
                       (unsigned long long)*at);
    if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED)
        return skip_damaged_blob(pk, at, *at + 1,
                                 left < TD_PACK_HEAD ? "the file ends within its header"
                                                     : "no valid header here",
                                 left < TD_PACK_HEAD, err);
    if (rc)
        return td_fail(err, rc, "%s: cannot read at offset %llu", pk->src.name, (unsigned long long)*at);
    if (h->stored_len > left - TD_PACK_HEAD)
        return skip_damaged_blob(pk, at, *at + TD_PACK_HEAD, "the file ends within the blob", true,
                                 err);
    if (stored) {
        td_buf_clear(stored);
        if (td_memory_room(h->stored_len, pk->src.name, err))
            return TD_ENOMEM;
        if (!td_buf_reserve(stored, h->stored_len))
            return td_fail(err, TD_ENOMEM, "%s: no memory for a blob of %llu bytes", pk->src.name,
                           (unsigned long long)h->stored_len);
        rc = td_source_read(&pk->src, *at + TD_PACK_HEAD, stored->data, h->stored_len, err);
        if (rc)
            return rc;
        stored->len = h->stored_len;
        if (td_hash64(stored->data, stored->len) != h->sum)
            return skip_damaged_blob(pk, at, behind_bad(pk, *at, h), "checksum of the stored bytes differs", false, err);
    }
    *frame_at = *at;
    *at += TD_PACK_HEAD + h->stored_len;
    pk->good_end = *at;
    return 1;
}

/* ---- index ---------------------------------------------------------------------------------------------------------- */

static int index_by_walk(struct td_pack *pk, struct td_error *err)
{
    struct td_pack_head h;
    uint64_t at = 0, frame_at;

    for (;;) {
        struct td_error why = {0};
        int rc = td_pack_walk(pk, &at, &h, &frame_at, NULL, &why);

        if (!rc)
            return TD_OK;
        if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED) {
            td_log(TD_LOG_INFO, "format", "%s", why.msg);
            continue;
        }
        if (rc < 0)
            return td_fail(err, rc, "%s", why.msg);
        if (h.encoding != TD_PACK_INDEX) {
            struct td_pack_entry e = {h.hash, frame_at, h.raw_len};

            rc = td_pack_index_add(&pk->index, &e);
            if (rc)
                return td_fail(err, rc, "%s: too many blobs or no memory for the index", pk->src.name);
        }
    }
}

/* Read the index frame that the trailer names. After any error the caller walks instead. */
static int index_by_frame(struct td_pack *pk)
{
    struct td_pack_head h;
    struct td_buf b = TD_BUF_INIT(TD_PACK_MAX_BLOBS * 32 + 1);
    uint64_t end, at, i;
    uint8_t raw[8];
    int rc = TD_ECORRUPT;

    if (pk->src.size < TD_PACK_TRAILER + TD_PACK_HEAD)
        return TD_ETRUNCATED;
    end = pk->src.size - TD_PACK_TRAILER;
    if (!trailer_at(pk, end) || td_source_read(&pk->src, end, raw, 8, NULL))
        return TD_ECORRUPT;
    at = td_get64(raw);
    if (at > end - TD_PACK_HEAD || blob_head_at(pk, at, &h) || h.encoding != TD_PACK_INDEX ||
        h.stored_len != h.raw_len || h.stored_len != end - at - TD_PACK_HEAD || h.stored_len % 32 ||
        h.stored_len > TD_PACK_MAX_BLOBS * 32)
        return TD_ECORRUPT;
    if (td_memory_room(2 * h.stored_len, pk->src.name, NULL))
        return TD_ENOMEM;
    if (td_buf_reserve(&b, h.stored_len + 1) && !td_source_read(&pk->src, at + TD_PACK_HEAD, b.data, h.stored_len, NULL) &&
        td_hash64(b.data, h.stored_len) == h.sum) {
        rc = TD_OK;
        for (i = 0; !rc && i < h.stored_len; i += 32) {
            const uint8_t *p = (const uint8_t *)b.data + i;
            struct td_pack_entry e = {{td_get64(p), td_get64(p + 8)}, td_get64(p + 16), td_get64(p + 24)};

            rc = e.at < at ? td_pack_index_add(&pk->index, &e) : TD_ECORRUPT;
        }
    }
    td_buf_release(&b);
    return rc;
}

static int make_index(struct td_pack *pk, struct td_error *err)
{
    if (!index_by_frame(pk)) {
        pk->indexed = true;
        pk->good_end = pk->src.size;
        return TD_OK;
    }
    td_pack_index_release(&pk->index);
    return index_by_walk(pk, err);
}

int td_pack_open(struct td_pack *pk, const char *path, struct td_error *err)
{
    int rc;

    memset(pk, 0, sizeof *pk);
    pk->src.fd = -1;
    rc = td_source_open(&pk->src, path, err);
    if (!rc)
        rc = make_index(pk, err);
    if (rc)
        td_pack_close(pk);
    return rc;
}

int td_pack_memory(struct td_pack *pk, const void *data, size_t n, struct td_error *err)
{
    memset(pk, 0, sizeof *pk);
    td_source_memory(&pk->src, data, n, "memory");
    return make_index(pk, err);
}

void td_pack_close(struct td_pack *pk)
{
    td_source_close(&pk->src);
    td_pack_index_release(&pk->index);
}

/* ---- decoding ------------------------------------------------------------------------------------------------------- */

static void join_planes(const uint8_t *in, size_t n, uint8_t *out)
{
    size_t half = n / 2, i;

    for (i = 0; i < half; i++) {
        out[2 * i] = in[i];
        out[2 * i + 1] = in[half + i];
    }
    if (n & 1)
        out[n - 1] = in[n - 1];
}

/* What ZSTD_decompress() came to. It allocates, too. */
static int decoded(size_t got, const struct td_pack_head *h)
{
    if (ZSTD_isError(got))
        return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? TD_ENOMEM : TD_ECORRUPT;
    return got == h->raw_len ? TD_OK : TD_ECORRUPT;
}

/* Are the stored bytes the blob's own? */
static bool is_raw(const struct td_pack_head *h)
{
    return h->encoding == TD_PACK_RAW && h->stored_len == h->raw_len;
}

static int decode_blob(const struct td_pack_head *h, const uint8_t *stored, uint8_t *raw)
{
    uint8_t *planes;
    int rc;

    switch (h->encoding) {
    case TD_PACK_RAW:
        return TD_ECORRUPT; /* else is_raw() */
    case TD_PACK_ZSTD:
        return decoded(ZSTD_decompress(raw, h->raw_len, stored, h->stored_len), h);
    case TD_PACK_PLANES:
        planes = malloc(h->raw_len ? h->raw_len : 1);
        if (!planes)
            return TD_ENOMEM;
        rc = decoded(ZSTD_decompress(planes, h->raw_len, stored, h->stored_len), h);
        if (!rc)
            join_planes(planes, h->raw_len, raw);
        free(planes);
        return rc;
    default:
        return TD_EVERSION;
    }
}

/* A header may claim up to 4 GiB: check the claim against the stored bytes before memory is
 * allocated for it. */
static bool is_plausible(const struct td_pack_head *h, const uint8_t *stored)
{
    if (h->encoding == TD_PACK_ZSTD || h->encoding == TD_PACK_PLANES)
        return ZSTD_getFrameContentSize(stored, h->stored_len) == h->raw_len;
    return h->stored_len == h->raw_len;
}

/* Memory that reading a blob takes. */
static uint64_t blob_cost(const struct td_pack_head *h)
{
    if (is_raw(h))
        return h->raw_len;
    return h->stored_len + h->raw_len * (h->encoding == TD_PACK_PLANES ? 2 : 1);
}

int td_pack_read(const struct td_pack *pk, uint64_t at, const struct td_hash *want, uint64_t max, void **data, size_t *n, struct td_error *err)
{
    struct td_pack_head h;
    char hex[TD_HASH_HEX] = "?";
    uint8_t *stored = NULL, *raw = NULL;
    int rc = blob_head_at(pk, at, &h);

    *data = NULL;
    *n = 0;
    if (rc)
        return td_fail(err, rc, "%s: no valid blob header at offset %llu", pk->src.name, (unsigned long long)at);
    td_hash_hex(h.hash, hex);
    if (want && !td_hash_eq(h.hash, *want))
        return td_fail(
            err, TD_ECORRUPT,
            "%s: the index points to offset %llu for another blob than the one there, %s",
            pk->src.name, (unsigned long long)at, hex);
    if (h.stored_len > pk->src.size - at - TD_PACK_HEAD)
        return td_fail(err, TD_ETRUNCATED, "%s: blob %s at offset %llu is incomplete", pk->src.name, hex, (unsigned long long)at);
    if (h.raw_len > max)
        return td_fail(err, TD_ELIMIT, "%s: blob %s at offset %llu has %llu bytes, more than its tensor, which takes at most %llu",
                       pk->src.name, hex, (unsigned long long)at, (unsigned long long)h.raw_len, (unsigned long long)max);
    if (td_memory_room(blob_cost(&h), pk->src.name, err))
        return TD_ENOMEM;
    stored = malloc(h.stored_len ? h.stored_len : 1); /* most bytes are stored raw: these are read to where they stay */
    rc = stored ? td_source_read(&pk->src, at + TD_PACK_HEAD, stored, h.stored_len, err) : TD_ENOMEM;
    if (!rc && (td_hash64(stored, h.stored_len) != h.sum || !is_plausible(&h, stored)))
        rc = TD_ECORRUPT;
    if (is_raw(&h)) {
        raw = stored;
        stored = NULL;
    } else if (!rc && !(raw = malloc(h.raw_len ? h.raw_len : 1))) {
        rc = TD_ENOMEM;
    } else if (!rc) {
        rc = decode_blob(&h, stored, raw);
    }
    if (!rc && !td_hash_eq(td_hash_bytes(raw, h.raw_len), h.hash))
        rc = TD_ECORRUPT;
    free(stored);
    if (rc) {
        free(raw);
        return td_fail(err, rc, "%s: blob %s at offset %llu: %s", pk->src.name, hex, (unsigned long long)at,
                       rc == TD_EVERSION ? "encoding of a later version" : td_code_name(rc));
    }
    *data = raw;
    *n = h.raw_len;
    return TD_OK;
}
