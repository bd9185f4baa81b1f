/* frames.h - the frames of a stream file: write one, walk them, skip damage.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A frame is 8 bytes that zstd skips (magic 0x184D2A5D, size 48), 48 bytes of our header, and an ordinary zstd frame with
 * content size and checksum. docs/format.md, "Frames", gives every byte. All integers are little-endian. */
#ifndef TD_FORMAT_FRAMES_H
#define TD_FORMAT_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <zstd.h>

#include "common/buf.h"
#include "common/error.h"
#include "format/sink.h"

#define TD_FRAME_HEAD 56                     /* bytes, the zstd skippable header included */
#define TD_FRAME_VERSION 1
#define TD_FRAME_MAX_RAW (256u << 20)        /* largest frame, and so largest record, before compression */
#define TD_FRAMES_FREE (16u << 20)           /* a stream may stand for so many bytes, whatever it takes on the disk ... */
#define TD_FRAMES_RATIO 256                  /* ... and else for so many times what it takes: each frame that we write does */
#define TD_FRAME_COMMIT_RAW (1u << 20)       /* a frame is closed at this size ... */
#ifndef TD_FRAME_COMMIT_NS
#define TD_FRAME_COMMIT_NS 500000000LL       /* ... or when its oldest record was queued so long ago */
#endif

struct td_frame_head {
    uint16_t kind;        /* enum td_stream_kind + 1 */
    uint64_t number;      /* 0, 1, 2 ... within the file */
    uint32_t records;     /* how many records the frame holds */
    uint32_t raw_len, comp_len;
    uint64_t sum;         /* XXH3-64 of the compressed bytes */
};

void td_frame_head_put(const struct td_frame_head *h, uint8_t out[TD_FRAME_HEAD]);
int td_frame_head_get(const uint8_t in[TD_FRAME_HEAD], struct td_frame_head *h); /* TD_OK, TD_ECORRUPT, TD_EVERSION */

/* Compress n bytes as one frame and append it, padded to n / TD_FRAMES_RATIO. n <= TD_FRAME_MAX_RAW.
 * scratch: reused between calls. */
int td_frame_write(struct td_sink *s, ZSTD_CCtx *z, int level, const struct td_frame_head *h, const void *raw, size_t n,
                   struct td_buf *scratch, struct td_error *err);
/* Append a frame that is compressed already, with the header h (repair and merge renumber
 * frames). */
int td_frame_copy(struct td_sink *s, const struct td_frame_head *h, const void *comp, struct td_error *err);

struct td_frames {
    struct td_source src;
    uint16_t kind;            /* 0: any */
    uint64_t at;              /* where the next frame should begin */
    uint64_t expect;          /* the number it should have */
    bool in_damage;           /* between bad bytes and the next good header */
    ZSTD_DCtx *z;
    struct td_buf comp, raw;  /* of the current frame */
    struct td_frame_head head;
    uint64_t head_at;         /* offset of the current frame */
    uint64_t good_end;        /* end of the last good frame: a torn tail is cut here */
    uint64_t raw_seen, stored_seen; /* bytes of the frames that were read */
    uint64_t read_in_vain;    /* bytes of whole frames whose content was bad */
    int64_t bad;              /* frames or stretches of bytes that were skipped */
    bool torn;                /* the last frame is incomplete */
};

/* Open a stream file, or bytes in memory (borrowed), for walking.
 *   kind : enum td_stream_kind + 1; frames of another kind count as damage; 0: any */
int td_frames_open(struct td_frames *f, const char *path, uint16_t kind, struct td_error *err);
int td_frames_memory(struct td_frames *f, const void *data, size_t n, uint16_t kind, struct td_error *err);
void td_frames_close(struct td_frames *f);
/* 1 = the frame's bytes are in f->raw until the next call; 0 = end; TD_ECORRUPT: something was skipped and is named (file,
 * offset, frame number), read on; TD_ETRUNCATED: the last frame is incomplete, then 0; TD_EVERSION, TD_EIO, TD_ENOMEM (it
 * would take too much memory, or the frames so far stand for more than a stream may): stop. */
int td_frames_next(struct td_frames *f, struct td_error *err);

#endif
