/* archive.c - a pack: a fixture as one file, a ustar archive in zstd.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `zstd -dc x.tdz | tar -t` reads it, too. Unpacking accepts regular files with the names of a
 * fixture's files only: no folders, links or paths. */
#include "format/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/progress.h"
#include "common/tar_head.h"
#include "common/temp_file.h"
#include "common/temp_sweep.h"
#include "common/zstd_window.h"
#include "format/manifest.h"
#include "format/sink.h"

#define BLOCK TD_TAR_BLOCK
#define CHUNK ((size_t)1 << 17)
#define MOST_PADDING ((size_t)1 << 20) /* zeros behind the end of the archive: tar fills its last record */

/* One archive being written or read. */
struct zio {
    int fd;
    const char *name;
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
    uint8_t in[CHUNK], out[CHUNK];
    ZSTD_inBuffer ib;
    bool ended;           /* the zstd frame has been read to its end, its checksum included */
    struct td_progress progress; /* in MiB of the fixture's files, or of the pack that is read */
    int64_t bytes;
};

/* ---- writing --------------------------------------------------------------------------------- */

static int put_bytes(struct zio *z, const void *data, size_t n, ZSTD_EndDirective end,
                     struct td_error *err)
{
    ZSTD_inBuffer in = {data, n, 0};
    size_t left;

    do {
        ZSTD_outBuffer out = {z->out, CHUNK, 0};

        left = ZSTD_compressStream2(z->c, &out, &in, end);
        if (ZSTD_isError(left))
            return td_fail(err, TD_EIO, "%s: zstd: %s", z->name, ZSTD_getErrorName(left));
        if (td_fs_write_all(z->fd, z->out, out.pos, z->name, err))
            return TD_EIO;
    } while (end == ZSTD_e_end ? left : in.pos < in.size);
    return TD_OK;
}

static int put_file(struct zio *z, const char *dir, const char *name, struct td_error *err)
{
    static const char zeros[BLOCK];
    struct td_source src;
    char path[TD_PATH_MAX], head[BLOCK];
    struct stat st;
    uint64_t at = 0;
    int rc = td_fs_join(path, sizeof path, dir, name, err);

    if (!rc)
        rc = td_source_open(&src, path, err);
    if (rc)
        return rc;
    td_tar_head_write(head, name, src.size, fstat(src.fd, &st) ? 0 : st.st_mtime);
    rc = put_bytes(z, head, BLOCK, ZSTD_e_continue, err);
    while (!rc && at < src.size) {
        size_t n = src.size - at < CHUNK ? (size_t)(src.size - at) : CHUNK;

        rc = td_source_read(&src, at, z->in, n, err);
        if (!rc)
            rc = put_bytes(z, z->in, n, ZSTD_e_continue, err);
        at += n;
        z->bytes += (int64_t)n;
        td_progress_at(&z->progress, z->bytes >> 20, NULL);
    }
    if (!rc && src.size % BLOCK)
        rc = put_bytes(z, zeros, BLOCK - src.size % BLOCK, ZSTD_e_continue, err);
    td_source_close(&src);
    return rc;
}

static int64_t fixture_bytes(const char *dir)
{
    char path[TD_PATH_MAX];
    int64_t sum = 0;
    struct stat st;
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++)
        if (!td_fs_join(path, sizeof path, dir, td_file_names[i], NULL) && !lstat(path, &st))
            sum += st.st_size;
    return sum;
}

int td_archive_pack(const char *dir, const char *out, struct td_error *err)
{
    static const char zeros[2 * BLOCK];
    struct zio *z = calloc(1, sizeof *z);
    char tmp[TD_PATH_MAX];
    int i, rc = TD_OK;

    if (!z)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", out);
    if (td_fixture_lock_check(dir, err)) {
        free(z);
        return TD_EBUSY;
    }
    z->name = out;
    z->c = ZSTD_createCCtx();
    td_temp_sweep_beside(out);
    z->fd = td_temp_open(out, 0600, tmp, err);
    if (z->fd < 0) {
        rc = z->fd;
    } else if (!z->c) {
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory", out);
        close(z->fd);
        unlink(tmp);
    } else {
        ZSTD_CCtx_setParameter(z->c, ZSTD_c_checksumFlag, 1);
        /* its content is compressed already */
        ZSTD_CCtx_setParameter(z->c, ZSTD_c_compressionLevel, 1);
        td_progress_start(&z->progress, "packing, MiB", fixture_bytes(dir) >> 20);
        rc = put_file(z, dir, TD_MANIFEST_NAME, err);
        for (i = 0; !rc && i < TD_FILE_COUNT; i++)
            rc = put_file(z, dir, td_file_names[i], err);
        td_progress_done(&z->progress);
        if (!rc)
            rc = put_bytes(z, zeros, sizeof zeros, ZSTD_e_end, err);
        if (!rc && fsync(z->fd))
            rc = td_fail(err, TD_EIO, "%s: cannot sync: %s", out, strerror(errno));
        close(z->fd);
        if (rc)
            unlink(tmp);
        else
            rc = td_temp_rename(tmp, out, err);
    }
    ZSTD_freeCCtx(z->c);
    free(z);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Read more of the file. *n : 0 at its end */
static int read_file(struct zio *z, size_t *n, struct td_error *err)
{
    ssize_t k;

    do
        k = read(z->fd, z->in, CHUNK);
    while (k < 0 && errno == EINTR);
    if (k < 0)
        return td_fail(err, TD_EIO, "%s: cannot read: %s", z->name, strerror(errno));
    *n = (size_t)k;
    z->bytes += k;
    td_progress_at(&z->progress, z->bytes >> 20, NULL);
    return TD_OK;
}

/* Read at most *n bytes of the archive; fewer, when the frame ends. */
static int get_some(struct zio *z, void *data, size_t *n, struct td_error *err)
{
    ZSTD_outBuffer out = {data, *n, 0};

    while (out.pos < *n && !z->ended) {
        size_t before = out.pos, r;
        int rc = TD_OK;

        if (z->ib.pos == z->ib.size) {
            z->ib = (ZSTD_inBuffer){z->in, 0, 0};
            rc = read_file(z, &z->ib.size, err);
        }
        if (rc)
            return rc;
        r = ZSTD_decompressStream(z->d, &out, &z->ib);
        if (ZSTD_isError(r))
            return td_zstd_window_failed(r, z->name, err);
        z->ended = !r;
        if (r && out.pos == before && !z->ib.size)
            return td_fail(err, TD_ETRUNCATED, "%s: the archive ends too early", z->name);
    }
    *n = out.pos;
    return TD_OK;
}

/* Read exactly n bytes of the archive, or fail with TD_ETRUNCATED. */
static int get_bytes(struct zio *z, void *data, size_t n, struct td_error *err)
{
    size_t got = n;
    int rc = get_some(z, data, &got, err);

    return rc || got == n ? rc : td_fail(err, TD_ETRUNCATED, "%s: the archive ends too early", z->name);
}

/* Read behind the last file to the end of the frame, where its checksum stands, and of the pack. */
static int check_end(struct zio *z, struct td_error *err)
{
    size_t padding = 0, n = 0, i;
    int rc = TD_OK;

    while (!rc && !z->ended) {
        n = CHUNK;
        rc = get_some(z, z->out, &n, err);
        for (i = 0; !rc && i < n; i++)
            if (z->out[i] || ++padding > MOST_PADDING)
                rc = td_fail(err, TD_ECORRUPT, "%s: more stands behind the end of the archive", z->name);
    }
    n = z->ib.size - z->ib.pos;
    if (!rc && !n)
        rc = read_file(z, &n, err);
    if (!rc && n)
        rc = td_fail(err, TD_ECORRUPT, "%s: more stands behind the end of the pack: one file holds one pack", z->name);
    return rc;
}

static bool is_fixture_file(const char *name)
{
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++)
        if (!strcmp(name, td_file_names[i]))
            return true;
    return !strcmp(name, TD_MANIFEST_NAME);
}

/* 1 = a file of *size bytes follows, 0 = end of the archive. */
static int read_tar_head(struct zio *z, char name[TD_TAR_NAME], int64_t *size, struct td_error *err)
{
    char h[BLOCK];
    int rc = get_bytes(z, h, BLOCK, err), kind;

    if (rc)
        return rc;
    kind = td_tar_head_read(h, name, size);
    if (kind == 0)
        return 0;
    if (kind == -1)
        return td_fail(err, TD_ECORRUPT, "%s: no ustar archive inside", z->name);
    if (kind != 1 || !is_fixture_file(name))
        return td_fail(
            err, TD_ECORRUPT,
            "%s: holds \"%.100s\", which is no file of a fixture; only those are unpacked", z->name,
            name);
    return *size < 0 ? td_fail(err, TD_ECORRUPT, "%s: bad size of %s", z->name, name) : 1;
}

static int get_file(struct zio *z, const char *dir, const char *name, int64_t size,
                    struct td_error *err)
{
    struct td_sink s;
    int64_t left = size, pad = (BLOCK - size % BLOCK) % BLOCK;
    int rc = td_sink_open(&s, dir, name, err); /* a name that comes twice fails here */

    while (!rc && left) {
        size_t n = left < (int64_t)CHUNK ? (size_t)left : CHUNK;

        rc = get_bytes(z, z->out, n, err);
        if (!rc)
            rc = td_sink_write(&s, z->out, n, NULL, 0, err);
        left -= (int64_t)n;
    }
    if (!rc && pad)
        rc = get_bytes(z, z->out, (size_t)pad, err);
    if (!rc)
        rc = td_sink_sync(&s, err);
    if (s.fd >= 0)
        td_sink_close(&s);
    return rc;
}

/* What a pack of that size may hold. */
static int64_t most_inside(int64_t size)
{
    int64_t most = size < TD_PACK_MAX_BYTES ? TD_PACK_SPARE_BYTES + TD_PACK_RATIO * size : TD_PACK_MAX_BYTES;

    return most < TD_PACK_MAX_BYTES ? most : TD_PACK_MAX_BYTES;
}

int td_archive_unpack(const char *file, const char *dir, int64_t max, struct td_error *err)
{
    struct zio *z = calloc(1, sizeof *z);
    char name[TD_TAR_NAME];
    int64_t size = 0, total = 0;
    struct stat st;
    int rc, n = 0;

    if (!z)
        return td_fail(err, TD_ENOMEM, "out of memory");
    z->name = file;
    z->d = td_zstd_window_decoder();
    z->fd = td_fs_open_regular(file, err);
    if (z->fd < 0)
        rc = z->fd;
    else if (!z->d)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    else
        rc = td_fs_mkdirs(dir, err);
    if (z->fd < 0 || fstat(z->fd, &st))
        st.st_size = 0;
    if (!max)
        max = most_inside(st.st_size);
    td_progress_start(&z->progress, "unpacking, MiB", st.st_size >> 20);
    while (!rc && (rc = read_tar_head(z, name, &size, err)) == 1) {
        if (size > max - total)
            rc = td_fail(err, TD_ELIMIT,
                         "%s: more than %lld bytes inside, and it has %lld itself; {fixture} unpack --max-bytes N takes more",
                         file, (long long)max, (long long)st.st_size);
        else
            rc = get_file(z, dir, name, size, err);
        total += size;
        n++;
    }
    if (!rc && n != TD_FILE_COUNT + 1)
        rc = td_fail(err, TD_ETRUNCATED, "%s: holds %d of the %d files of a fixture", file, n,
                     TD_FILE_COUNT + 1);
    if (!rc)
        rc = check_end(z, err);
    td_progress_done(&z->progress);
    if (z->fd >= 0)
        close(z->fd);
    ZSTD_freeDCtx(z->d);
    free(z);
    return rc;
}
