/* pack_manifest.c - the manifest of a packed fixture, read without unpacking it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/pack_manifest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/tar_head.h"
#include "common/zstd_window.h"

enum { CHUNK = 1 << 14 };

/* Decompress n bytes, appended to out. */
static bool get_bytes(int fd, ZSTD_DCtx *d, ZSTD_inBuffer *in, uint8_t chunk[CHUNK], size_t n,
                      struct td_buf *out)
{
    char part[CHUNK];

    while (n) {
        ZSTD_outBuffer o = {part, n < sizeof part ? n : sizeof part, 0};

        if (in->pos == in->size) {
            ssize_t k = read(fd, chunk, CHUNK);

            if (k <= 0)
                return false;
            *in = (ZSTD_inBuffer){chunk, (size_t)k, 0};
        }
        if (ZSTD_isError(ZSTD_decompressStream(d, &o, in)) || td_buf_add(out, part, o.pos))
            return false;
        n -= o.pos;
    }
    return true;
}

static bool read_first_file(int fd, ZSTD_DCtx *d, size_t max, struct td_buf *out)
{
    char name[TD_TAR_NAME];
    uint8_t chunk[CHUNK];
    ZSTD_inBuffer in = {chunk, 0, 0};
    int64_t size;

    if (!get_bytes(fd, d, &in, chunk, TD_TAR_BLOCK, out) ||
        td_tar_head_read(out->data, name, &size) != 1 || strcmp(name, "manifest.json") ||
        size < 0 || (uint64_t)size > max)
        return false;
    td_buf_clear(out);
    return get_bytes(fd, d, &in, chunk, (size_t)size, out);
}

cJSON *td_pack_manifest(const char *path, size_t max)
{
    struct td_error none = {0, ""};
    struct td_buf text = TD_BUF_INIT(max + TD_TAR_BLOCK);
    int fd = td_fs_open_regular(path, &none);
    ZSTD_DCtx *d = td_zstd_window_decoder();
    cJSON *manifest = NULL;

    if (fd >= 0 && d && read_first_file(fd, d, max, &text))
        manifest = td_json_parse(td_buf_str(&text), text.len, &none);
    ZSTD_freeDCtx(d);
    if (fd >= 0)
        close(fd);
    td_buf_release(&text);
    return manifest;
}
