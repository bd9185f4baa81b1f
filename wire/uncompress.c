/* uncompress.c - bodies that were compressed for the wire, by zlib, libbrotli and libzstd.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/uncompress.h"

#include <malloc.h>
#include <stdlib.h>
#include <strings.h>
#include <zstd.h>
#include <zstd_errors.h>

#ifdef TD_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef TD_HAVE_BROTLI
#include <brotli/decode.h>
#endif

enum {
    PIECE = 32 << 10,             /* bytes that are handed on at once */
    ZSTD_WINDOW_LOG = 23          /* RFC 9659: 8 MiB */
};

/* A step of a decoder: what is taken of the input and what is in the output is counted in struct piece. */
enum step {
    STEP_AGAIN,                   /* there is more output */
    STEP_NEEDS_INPUT,
    STEP_END,                     /* of the body, or of a part behind which another may stand */
    STEP_DAMAGED, STEP_TOO_MUCH, STEP_NO_MEMORY
};

struct piece { const uint8_t *in; size_t n_in; char out[PIECE]; size_t n_out; };

struct td_uncompress {
    enum td_coding coding;
    bool at_end;                  /* behind a part that is whole */
    int failed;
    int64_t taken, given;         /* bytes in, bytes out */
    size_t memory;                /* of zlib and libbrotli */
#ifdef TD_HAVE_ZLIB
    z_stream zlib; bool zlib_open;
#endif
#ifdef TD_HAVE_BROTLI
    BrotliDecoderState *brotli;
#endif
    ZSTD_DStream *zstd; unsigned frame_at; /* bytes of the frame's beginning that came */
    struct piece *piece;          /* while it is fed */
};

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const NAMES[] = {"identity", "gzip", "deflate", "br", "zstd"};

enum td_coding td_coding_of(const char *value)
{
    int i;

    if (!*value)
        return TD_CODING_NONE;
    if (!strcasecmp(value, "x-gzip"))
        return TD_CODING_GZIP;
    for (i = TD_CODING_NONE; i < TD_CODING_UNKNOWN; i++)
        if (!strcasecmp(value, NAMES[i]))
            return (enum td_coding)i;
    return TD_CODING_UNKNOWN;
}

const char *td_coding_name(enum td_coding coding)
{
    return coding < TD_CODING_UNKNOWN ? NAMES[coding] : "a coding that is not known";
}

bool td_coding_is_read(enum td_coding coding)
{
    switch (coding) {
    case TD_CODING_GZIP:
    case TD_CODING_DEFLATE:
#ifdef TD_HAVE_ZLIB
        return true;
#else
        return false;
#endif
    case TD_CODING_BR:
#ifdef TD_HAVE_BROTLI
        return true;
#else
        return false;
#endif
    default:
        return coding == TD_CODING_ZSTD;
    }
}

/* ---- memory of the libraries ----------------------------------------------------------------- */

#if defined(TD_HAVE_ZLIB) || defined(TD_HAVE_BROTLI)
static void *take_memory(void *arg, size_t n)
{
    struct td_uncompress *u = arg;
    void *p = malloc(n);

    u->memory += p ? malloc_usable_size(p) : 0;
    return p;
}

static void give_memory(void *arg, void *p)
{
    struct td_uncompress *u = arg;

    u->memory -= p ? malloc_usable_size(p) : 0;
    free(p);
}
#endif

/* ---- zlib ------------------------------------------------------------------------------------ */

#ifdef TD_HAVE_ZLIB
enum { WITH_GZIP = 16 + 15, WITH_FRAME = 15, BARE = -15 };

static void *take_items(void *arg, unsigned items, unsigned bytes)
{
    return take_memory(arg, (size_t)items * bytes);
}

static int open_zlib(struct td_uncompress *u, int window)
{
    u->zlib = (z_stream){.zalloc = take_items, .zfree = give_memory, .opaque = u};
    u->zlib_open = inflateInit2(&u->zlib, window) == Z_OK;
    return u->zlib_open ? TD_OK : TD_ENOMEM;
}

/* "deflate" is zlib's frame; some servers leave it out. Its first byte tells: 8 is the method. Without the frame it
 * would be a stored block whose padding is not zero. */
static int window_of(const struct td_uncompress *u, uint8_t first)
{
    return u->coding == TD_CODING_GZIP ? WITH_GZIP : (first & 0x0F) == 8 && first >> 4 <= 7 ? WITH_FRAME : BARE;
}

static enum step step_zlib(struct td_uncompress *u)
{
    struct piece *p = u->piece;
    z_stream *z = &u->zlib;
    int rc;

    if (!u->zlib_open && open_zlib(u, window_of(u, *p->in)))
        return STEP_NO_MEMORY;
    if (u->at_end && (u->coding != TD_CODING_GZIP || inflateReset(z) != Z_OK)) /* another member */
        return STEP_DAMAGED;
    z->next_in = (Bytef *)p->in;
    z->avail_in = (uInt)p->n_in;
    z->next_out = (Bytef *)p->out;
    z->avail_out = PIECE;
    rc = inflate(z, Z_SYNC_FLUSH);
    p->in = z->next_in;
    p->n_in = z->avail_in;
    p->n_out = PIECE - z->avail_out;
    if (rc == Z_STREAM_END)
        return STEP_END;
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        return rc == Z_MEM_ERROR ? STEP_NO_MEMORY : STEP_DAMAGED;
    return z->avail_out ? STEP_NEEDS_INPUT : STEP_AGAIN;
}
#endif

/* ---- libbrotli ------------------------------------------------------------------------------- */

#ifdef TD_HAVE_BROTLI
static enum step step_brotli(struct td_uncompress *u)
{
    struct piece *p = u->piece;
    size_t room = PIECE;
    uint8_t *out = (uint8_t *)p->out;
    BrotliDecoderResult rc;

    if (!u->brotli)
        u->brotli = BrotliDecoderCreateInstance(take_memory, give_memory, u);
    if (!u->brotli)
        return STEP_NO_MEMORY;
    if (u->at_end)
        return STEP_DAMAGED;
    rc = BrotliDecoderDecompressStream(u->brotli, &p->n_in, &p->in, &room, &out, NULL);
    p->n_out = PIECE - room;
    if (rc == BROTLI_DECODER_RESULT_SUCCESS)
        return STEP_END;
    if (rc == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT)
        return STEP_AGAIN;
    if (rc == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT)
        return STEP_NEEDS_INPUT;
    return BrotliDecoderGetErrorCode(u->brotli) <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                   BrotliDecoderGetErrorCode(u->brotli) >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES
               ? STEP_NO_MEMORY
               : STEP_DAMAGED;
}
#endif

/* ---- libzstd --------------------------------------------------------------------------------- */

static bool open_zstd(struct td_uncompress *u)
{
    u->zstd = ZSTD_createDStream();
    return u->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG));
}

/* Does a frame begin as frames do? libzstd may also read what came before RFC 8878, with other bounds. */
static bool begins_frame(struct td_uncompress *u)
{
    static const uint8_t MAGIC[] = {0x28, 0xB5, 0x2F, 0xFD};
    size_t i;

    for (i = 0; i < u->piece->n_in && u->frame_at < sizeof MAGIC; i++)
        if (u->piece->in[i] != MAGIC[u->frame_at++])
            return false;
    return true;
}

static enum step zstd_error(ZSTD_ErrorCode code)
{
    return code == ZSTD_error_memory_allocation                ? STEP_NO_MEMORY
           : code == ZSTD_error_frameParameter_windowTooLarge ? STEP_TOO_MUCH
                                                               : STEP_DAMAGED;
}

static enum step step_zstd(struct td_uncompress *u)
{
    struct piece *p = u->piece;
    ZSTD_inBuffer in = {p->in, p->n_in, 0};
    ZSTD_outBuffer out = {p->out, PIECE, 0};
    size_t rc;

    if (!u->zstd && !open_zstd(u))
        return STEP_NO_MEMORY;
    if (!begins_frame(u))
        return STEP_DAMAGED;
    rc = ZSTD_decompressStream(u->zstd, &out, &in);
    p->in += in.pos;
    p->n_in -= in.pos;
    p->n_out = out.pos;
    if (ZSTD_isError(rc))
        return zstd_error(ZSTD_getErrorCode(rc));
    if (!rc) {
        u->frame_at = 0;
        return STEP_END;
    }
    return out.pos == PIECE ? STEP_AGAIN : STEP_NEEDS_INPUT;
}

/* ---- all ------------------------------------------------------------------------------------- */

int td_uncompress_new(enum td_coding coding, struct td_uncompress **out)
{
    *out = NULL;
    if (!td_coding_is_read(coding))
        return TD_EUNSUPPORTED;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return TD_ENOMEM;
    (*out)->coding = coding;
    return TD_OK;
}

void td_uncompress_free(struct td_uncompress *u)
{
    if (!u)
        return;
#ifdef TD_HAVE_ZLIB
    if (u->zlib_open)
        inflateEnd(&u->zlib);
#endif
#ifdef TD_HAVE_BROTLI
    if (u->brotli)
        BrotliDecoderDestroyInstance(u->brotli);
#endif
    ZSTD_freeDStream(u->zstd);
    free(u);
}

static enum step step(struct td_uncompress *u)
{
#ifdef TD_HAVE_ZLIB
    if (u->coding == TD_CODING_GZIP || u->coding == TD_CODING_DEFLATE)
        return step_zlib(u);
#endif
#ifdef TD_HAVE_BROTLI
    if (u->coding == TD_CODING_BR)
        return step_brotli(u);
#endif
    return step_zstd(u);
}

/* May so much more be handed on? */
static bool is_within(const struct td_uncompress *u, size_t more)
{
    const int64_t given = u->given + (int64_t)more;

    return given <= TD_UNCOMPRESS_MAX_BYTES && (given <= TD_UNCOMPRESS_FLOOR || given / TD_UNCOMPRESS_MAX_RATIO <= u->taken);
}

/* Hand on what a step gave. */
static int hand_on(struct td_uncompress *u, enum step now, td_uncompress_fn *fn, void *arg)
{
    if (!is_within(u, u->piece->n_out))
        return TD_ELIMIT;
    u->given += (int64_t)u->piece->n_out;
    if (u->piece->n_out)
        fn(arg, u->piece->out, u->piece->n_out);
    return now == STEP_DAMAGED     ? TD_EPROTO
           : now == STEP_TOO_MUCH  ? TD_ELIMIT
           : now == STEP_NO_MEMORY ? TD_ENOMEM
                                   : TD_OK;
}

int td_uncompress_feed(struct td_uncompress *u, const void *bytes, size_t n, td_uncompress_fn *fn, void *arg)
{
    struct piece piece, *p = &piece;
    enum step now = STEP_NEEDS_INPUT;
    size_t before;

    u->piece = p;
    p->in = bytes;
    p->n_in = n;
    u->taken += (int64_t)n;
    while (!u->failed && (p->n_in || now == STEP_AGAIN)) {
        before = p->n_in;
        p->n_out = 0;
        now = step(u);
        u->at_end = now == STEP_END;
        u->failed = hand_on(u, now, fn, arg);
        if (!u->failed && !p->n_out && p->n_in && p->n_in == before) /* it takes nothing, and gives nothing */
            u->failed = TD_EPROTO;
    }
    u->piece = NULL;
    return u->failed;
}

bool td_uncompress_is_whole(const struct td_uncompress *u)
{
    return !u->failed && (u->at_end || !u->taken);
}

size_t td_uncompress_memory(const struct td_uncompress *u)
{
    return sizeof *u + u->memory + (u->zstd ? ZSTD_sizeof_DStream(u->zstd) : 0);
}
