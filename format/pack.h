/* pack.h - blobs.pack: append-only frames, content-addressed, self-indexing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A frame is a 64-byte header (magic, encoding, lengths, content hash, checksum of the stored bytes, checksum of the header)
 * and the stored bytes. On close an index frame and a 24-byte trailer follow; without them (or when they do not hold) the index
 * is rebuilt by walking the headers. docs/format.md, "blobs.pack", gives every byte. */
#ifndef TD_FORMAT_PACK_H
#define TD_FORMAT_PACK_H

#include <stdbool.h>
#include <stdint.h>
#include <zstd.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/progress.h"
#include "format/sink.h"

#define TD_PACK_HEAD 64
#define TD_PACK_TRAILER 24
#define TD_PACK_VERSION 1
#define TD_PACK_MAX_RAW ((uint64_t)4 << 30)      /* largest blob */
#define TD_PACK_MAX_BLOBS ((uint64_t)1 << 26)    /* in one pack */

enum td_pack_encoding {
    TD_PACK_RAW = 0,
    TD_PACK_ZSTD = 1,
    TD_PACK_PLANES = 2,   /* the low bytes of all 16-bit elements, their high bytes, an odd last byte; then zstd */
    TD_PACK_INDEX = 255   /* the stored bytes are the index */
};

struct td_pack_head {
    uint8_t encoding;
    uint64_t raw_len, stored_len;
    struct td_hash hash;  /* of the raw bytes */
    uint64_t sum;         /* XXH3-64 of the stored bytes */
};

void td_pack_head_put(const struct td_pack_head *h, uint8_t out[TD_PACK_HEAD]);
int td_pack_head_get(const uint8_t in[TD_PACK_HEAD], struct td_pack_head *h); /* TD_OK, TD_ECORRUPT, TD_EVERSION */

/* The offset of each blob; a hash table. */
struct td_pack_entry { struct td_hash hash; uint64_t at, raw_len; };
struct td_pack_index { struct td_pack_entry *slot; size_t n, cap; };

/* a known hash stays as it is. TD_ENOMEM, TD_ELIMIT */
int td_pack_index_add(struct td_pack_index *ix, const struct td_pack_entry *e);
const struct td_pack_entry *td_pack_index_find(const struct td_pack_index *ix, struct td_hash hash);
void td_pack_index_release(struct td_pack_index *ix);

/* Append a blob and add it to ix.
 *   elem_bytes : 2: try byte planes; 1: zstd; 0: store the bytes as they are */
int td_pack_write(struct td_sink *s, struct td_pack_index *ix, ZSTD_CCtx *z, int level, struct td_hash hash, const void *raw,
                  size_t n, int elem_bytes, struct td_buf *scratch, struct td_error *err);
/* Append a frame whose bytes are encoded already (repair, merge), and add it to ix unless NULL. */
int td_pack_copy(struct td_sink *s, struct td_pack_index *ix, const struct td_pack_head *h,
                 const void *stored, struct td_error *err);
/* Append index and trailer, the end of a pack. */
int td_pack_finish(struct td_sink *s, const struct td_pack_index *ix, struct td_error *err);

struct td_pack {
    struct td_source src;
    struct td_pack_index index;
    bool indexed;             /* the index came from the index frame, not from a walk */
    uint64_t good_end;        /* end of the last complete frame (walks only) */
    uint64_t read_in_vain;    /* stored bytes of whole blobs with wrong checksums (walks only) */
    int64_t bad;              /* frames or stretches of bytes that a walk skipped */
    bool torn;                /* the last frame is incomplete */
};

/* Open a pack and read or rebuild its index. Damage is counted in pk->bad and logged; blobs around
 * it can be read. */
int td_pack_open(struct td_pack *pk, const char *path, struct td_error *err);
int td_pack_memory(struct td_pack *pk, const void *data, size_t n, struct td_error *err);
void td_pack_close(struct td_pack *pk);
/* Decode the blob at an offset, of at most max bytes (TD_ELIMIT), into memory the caller frees; checked
 * against its hash, and that against want unless NULL. Safe from several threads. TD_ECORRUPT names offset and hash; TD_ENOMEM: it is larger than memory.h allows. */
int td_pack_read(const struct td_pack *pk, uint64_t at, const struct td_hash *want, uint64_t max, void **data, size_t *n, struct td_error *err);
/* Blobs of a pack that is checked stand for at most so many MiB, or times what it takes on the disk. */
#define TD_PACK_SUM_MIB ((uint64_t)64 << 10)
#define TD_PACK_SUM_TIMES 256
/* How many bytes of blobs were checked; the caller starts and ends the progress, in MiB. */
struct td_pack_checked { struct td_progress progress; uint64_t bytes; };
/* Check the blob whose frame begins at an offset, with the header h: stored bytes, length and hash, in
 * constant memory. far: NULL, or counted up. TD_ECORRUPT, TD_EVERSION. */
int td_pack_check(const struct td_pack *pk, uint64_t at, const struct td_pack_head *h, struct td_pack_checked *far, struct td_error *err);
/* Walk all frames in order, headers and stored bytes checked. 1 = filled (index frames too), 0 = end, TD_ECORRUPT: named and
 * skipped, read on; TD_ETRUNCATED: the last frame is incomplete, then 0. stored: valid until the next call; may be NULL. */
int td_pack_walk(struct td_pack *pk, uint64_t *at, struct td_pack_head *h, uint64_t *frame_at, struct td_buf *stored,
                 struct td_error *err);

#endif
