/* pack_check.c - check a blob of a pack in constant memory: it is decoded in pieces and hashed, never
 * held as a whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <xxhash.h>

#include "common/zstd_window.h"
#include "format/pack.h"

#define PIECE ((size_t)1 << 17)

/* One pass over the stored bytes of a blob: decoded, or as they are. */
struct pass {
    const struct td_source *src;
    uint64_t at, left;        /* of the stored bytes */
    ZSTD_DCtx *z;             /* NULL: as they are */
    ZSTD_inBuffer in;
    uint8_t *piece;           /* PIECE stored bytes */
    struct td_error *err;     /* gets a sentence of what zstd refuses */
    struct td_pack_checked *far;
};

static void count_checked(struct td_pack_checked *far, size_t n)
{
    if (!far)
        return;
    far->bytes += n;
    td_progress_at(&far->progress, (int64_t)(far->bytes >> 20), NULL);
}

static int start_pass(struct pass *p, const struct td_source *src, uint64_t at, const struct td_pack_head *h, struct td_error *err)
{
    *p = (struct pass){.src = src, .at = at, .left = h->stored_len, .piece = malloc(PIECE), .err = err};
    if (h->encoding != TD_PACK_RAW)
        p->z = td_zstd_window_decoder();
    return p->piece && (p->z || h->encoding == TD_PACK_RAW) ? TD_OK : TD_ENOMEM;
}

static void end_pass(struct pass *p)
{
    ZSTD_freeDCtx(p->z);
    free(p->piece);
}

/* The next stored bytes, at most max of them, to `to`. */
static int read_stored(struct pass *p, uint8_t *to, size_t max, size_t *n)
{
    *n = p->left < max ? (size_t)p->left : max;
    p->at += *n;
    p->left -= *n;
    return *n ? td_source_read(p->src, p->at - *n, to, *n, NULL) : TD_ECORRUPT; /* it ends too early */
}

/* Exactly n bytes of the blob. */
static int read_raw(struct pass *p, uint8_t *to, size_t n)
{
    ZSTD_outBuffer out = {to, n, 0};
    size_t got;
    int rc;

    while (out.pos < n) {
        if (!p->z) {
            if ((rc = read_stored(p, to + out.pos, n - out.pos, &got)))
                return rc;
            out.pos += got;
            continue;
        }
        if (p->in.pos == p->in.size) {
            if ((rc = read_stored(p, p->piece, PIECE, &got)))
                return rc;
            p->in = (ZSTD_inBuffer){p->piece, got, 0};
        }
        got = ZSTD_decompressStream(p->z, &out, &p->in);
        if (ZSTD_isError(got))
            return td_zstd_window_failed(got, "stored bytes", p->err);
    }
    return TD_OK;
}

/* Pass over n bytes of the blob; hashed unless `hash` is NULL. */
static int pass_over(struct pass *p, uint64_t n, uint8_t *room, XXH3_state_t *hash)
{
    int rc = TD_OK;

    while (!rc && n) {
        size_t part = n < PIECE ? (size_t)n : PIECE;

        rc = read_raw(p, room, part);
        if (!rc && hash)
            XXH3_128bits_update(hash, room, part);
        count_checked(p->far, hash ? part : 0);
        n -= part;
    }
    return rc;
}

/* Byte planes: one pass reads the low bytes, a second one the high bytes behind them. */
static int hash_planes(struct pass *low, struct pass *high, uint64_t raw_len, uint8_t *room, XXH3_state_t *hash)
{
    uint64_t half = raw_len / 2, done = 0;
    uint8_t *a = room, *b = room + PIECE, *both = room + 2 * PIECE;
    int rc = pass_over(high, half, room, NULL);

    while (!rc && done < half) {
        size_t n = half - done < PIECE ? (size_t)(half - done) : PIECE, i;

        if ((rc = read_raw(low, a, n)) || (rc = read_raw(high, b, n)))
            return rc;
        for (i = 0; i < n; i++) {
            both[2 * i] = a[i];
            both[2 * i + 1] = b[i];
        }
        XXH3_128bits_update(hash, both, 2 * n);
        count_checked(low->far, 2 * n);
        done += n;
    }
    return rc ? rc : pass_over(high, raw_len & 1, room, hash);
}

static int hash_blob(const struct td_source *src, uint64_t at, const struct td_pack_head *h, struct td_pack_checked *far, uint8_t *room,
                     XXH3_state_t *hash, struct td_error *err)
{
    struct pass one = {0}, two = {0};
    int rc = start_pass(&one, src, at, h, err);

    one.far = far;
    if (!rc && h->encoding == TD_PACK_PLANES && !(rc = start_pass(&two, src, at, h, err)))
        rc = hash_planes(&one, &two, h->raw_len, room, hash);
    else if (!rc)
        rc = pass_over(&one, h->raw_len, room, hash);
    end_pass(&one);
    end_pass(&two);
    return rc;
}

/* Is the sum of the stored bytes the header's, and the length that they claim the header's? *why: what
 * is wrong, when the code alone does not tell. */
static int check_stored(const struct td_source *src, uint64_t at, const struct td_pack_head *h, uint8_t *room, XXH3_state_t *hash,
                        const char **why)
{
    struct pass p = {.src = src, .at = at, .left = h->stored_len};
    uint8_t first[18]; /* the longest header of a zstd frame */
    size_t n = h->stored_len < sizeof first ? (size_t)h->stored_len : sizeof first;
    int rc = td_source_read(src, at, first, n, NULL);

    uint64_t claimed = h->encoding == TD_PACK_RAW ? h->stored_len : rc ? 0 : ZSTD_getFrameContentSize(first, n);

    XXH3_64bits_reset(hash);
    while (!rc && p.left) {
        rc = read_stored(&p, room, PIECE, &n);
        if (!rc)
            XXH3_64bits_update(hash, room, n);
    }
    if (rc)
        return rc;
    if (XXH3_64bits_digest(hash) == h->sum)
        return claimed == h->raw_len ? TD_OK : TD_ECORRUPT;
    *why = "checksum of the stored bytes differs";
    return TD_ECORRUPT;
}

int td_pack_check(const struct td_pack *pk, uint64_t at, const struct td_pack_head *h, struct td_pack_checked *far, struct td_error *err)
{
    XXH3_state_t *hash = XXH3_createState();
    uint8_t *room = malloc(4 * PIECE);
    char hex[TD_HASH_HEX];
    const char *why = NULL;
    struct td_error refused = {0};
    int rc = hash && room ? TD_OK : TD_ENOMEM;

    at += TD_PACK_HEAD;
    if (!rc && h->encoding > TD_PACK_PLANES)
        rc = TD_EVERSION;
    if (!rc)
        rc = check_stored(&pk->src, at, h, room, hash, &why);
    if (!rc) {
        XXH128_hash_t got;

        XXH3_128bits_reset(hash);
        rc = hash_blob(&pk->src, at, h, far, room, hash, &refused);
        got = XXH3_128bits_digest(hash);
        if (!rc && !td_hash_eq((struct td_hash){got.high64, got.low64}, h->hash))
            rc = TD_ECORRUPT;
    }
    XXH3_freeState(hash);
    free(room);
    td_hash_hex(h->hash, hex);
    if (!rc)
        return TD_OK;
    if (!why && rc == TD_ENOMEM && refused.code)
        why = refused.msg;
    if (!why)
        why = rc == TD_EVERSION ? "encoding of a later version" : td_code_name(rc);
    return td_fail(err, rc, "%s: blob %s at offset %llu: %s", pk->src.name, hex, (unsigned long long)(at - TD_PACK_HEAD), why);
}
