/* fixture_pieces.c - tell what is left of a fixture, or stands for one, from files of other kinds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/fixture_pieces.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/fs.h"
#include "common/json.h"
#include "common/lfs.h"
#include "common/pack_manifest.h"
#include "common/tar_head.h"
#include "common/zstd_window.h"

#define MANIFEST "manifest.json"
#define FORMAT   "\"tapedeck-fixture\""

enum { MANIFEST_MAX = 64 << 20, HEAD = 256, BLOCK_MAX = 128 << 10, BLOCKS_MAX = 1 << 21 };

/* Names that no file of another kind has. */
static const char *const FILES[] = {
    "exchanges.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst", "wire.zst",
    "steps.jsonl.zst",     "blobs.pack",    "writer.lock"};
/* What is kept beside fixtures, and is none. */
static const char *const OTHERS[] = {
    "md",  "txt", "rst", "pdf", "html", "png",     "jpg",   "jpeg",        "gif",  "svg",   "webp",
    "csv", "tsv", "log", "xml", "json", "jsonl",   "yaml",  "yml",         "toml", "ini",   "cfg",
    "py",  "sh",  "c",   "cu",  "h",    "so",      "ipynb", "safetensors", "gguf", "model", "bin",
    "pt",  "pth", "npy", "npz", "onnx", "parquet", "arrow", "mp4",         "wav",  "mp3"};

/* ---- names ----------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

size_t td_fixture_pack_stem(const char *path)
{
    const size_t n = strlen(path), suffix = strlen(TD_FIXTURE_PACK_SUFFIX);

    return n > suffix && path[n - suffix - 1] != '/' &&
                   !strcasecmp(path + n - suffix, TD_FIXTURE_PACK_SUFFIX)
               ? n - suffix
               : 0;
}

static bool is_absent(const char *path, int n)
{
    char whole[TD_PATH_MAX];

    return snprintf(whole, sizeof whole, "%.*s", n, path) >= (int)sizeof whole ||
           access(whole, F_OK);
}

/* Is it "x.tdz.part", "x.tdz~", "x.tdz.dvc" without x.tdz beside it: half a pack, or what stands
 * for one? */
static bool is_without_pack(const char *path)
{
    const char *at = base_name(path);

    while ((at = strcasestr(at, TD_FIXTURE_PACK_SUFFIX))) {
        at += strlen(TD_FIXTURE_PACK_SUFFIX);
        if (*at && !isalnum((unsigned char)*at))
            return is_absent(path, (int)(at - path));
    }
    return false;
}

/* Is it by its name a file of another kind, "plot.png"? `n` bytes of the name count. */
static bool is_of_other_kind(const char *name, size_t n)
{
    size_t i, k;

    for (i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        k = strlen(OTHERS[i]);
        if (n > k && name[n - k - 1] == '.' && !strncasecmp(name + n - k, OTHERS[i], k))
            return true;
    }
    return false;
}

/* Is it a file of a fixture that is being copied, "blobs.pack.6eF9c", or one that was copied under
 * a longer name, "x-blobs.pack"? */
static bool is_part_of_file(const char *name)
{
    const size_t len = strlen(name);
    size_t i, n;

    for (i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        n = strlen(FILES[i]);
        if (len > n &&
            ((!strncasecmp(name, FILES[i], n) && !isalnum((unsigned char)name[n])) ||
             (!strcasecmp(name + len - n, FILES[i]) && !isalnum((unsigned char)name[len - n - 1]))))
            return true;
    }
    return false;
}

/* ---- content --------------------------------------------------------------------------------- */

static size_t read_head(const char *path, char *out, size_t max)
{
    const int fd = td_fs_open_regular(path, NULL);
    const ssize_t n = fd >= 0 ? read(fd, out, max) : -1;

    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* Is it our manifest under another name: "manifest.json.tmp", "MANIFEST.JSON"? */
static bool is_renamed_manifest(const char *path)
{
    const char *name = base_name(path);
    char head[HEAD + 1];

    if (strncasecmp(name, MANIFEST, strlen(MANIFEST)) ||
        isalnum((unsigned char)name[strlen(MANIFEST)]))
        return false;
    head[read_head(path, head, HEAD)] = '\0';
    return strstr(head, FORMAT) != NULL;
}

static bool is_pointer(const char *path)
{
    static const char ANNEX[] = "/annex/objects/";
    char head[sizeof ANNEX - 1];

    return td_pack_is_lfs_pointer(path) ||
           (read_head(path, head, sizeof head) == sizeof head && !memcmp(head, ANNEX, sizeof head));
}

/* The length of a frame's header, by its fifth byte (RFC 8878, 3.1.1.1). */
static off_t header_length(uint8_t flags)
{
    static const uint8_t ID[] = {0, 1, 2, 4}, SIZE[] = {0, 2, 4, 8};
    const bool single = flags & 32;

    return 5 + !single + ID[flags & 3] + (flags >> 6 ? SIZE[flags >> 6] : single);
}

/* Do the blocks of the first frame end where the file does? Their content is not looked at. */
static bool is_whole_frame(int fd)
{
    uint8_t begin[5], block[3];
    uint32_t head, n = 0;
    struct stat st;
    off_t pos;

    if (fstat(fd, &st) || pread(fd, begin, sizeof begin, 0) != (ssize_t)sizeof begin)
        return false;
    pos = header_length(begin[4]);
    do {
        if (++n > BLOCKS_MAX || pread(fd, block, sizeof block, pos) != (ssize_t)sizeof block)
            return false;
        head = block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16;
        pos += 3 + ((head >> 1 & 3) == 1 ? 1 : head >> 3); /* a run is one byte */
    } while (!(head & 1));
    return pos + (begin[4] & 4 ? 4 : 0) == st.st_size;
}

/* The first bytes of what the file stands for. Returns their count, fewer than `max` where the
 * frame ends before; -1: that cannot be said, for the file is cut or damaged before; -2: no frame
 * of ours. */
static int first_bytes(int fd, char *out, size_t max)
{
    uint8_t chunk[BLOCK_MAX + 64]; /* a whole block, with the header before it */
    ZSTD_DCtx *d = td_zstd_window_decoder();
    const ssize_t n = pread(fd, chunk, sizeof chunk, 0);
    ZSTD_inBuffer in = {chunk, n > 0 ? (size_t)n : 0, 0};
    ZSTD_outBuffer o = {out, max, 0};
    size_t left = 1, before;

    if (!d || in.size < 4 || memcmp(chunk, "\x28\xb5\x2f\xfd", 4)) {
        ZSTD_freeDCtx(d);
        return -2;
    }
    do {
        before = in.pos + o.pos;
        left = ZSTD_decompressStream(d, &o, &in);
    } while (left && !ZSTD_isError(left) && o.pos < o.size && in.pos + o.pos > before);
    ZSTD_freeDCtx(d);
    if (ZSTD_isError(left) && td_zstd_window_failed(left, "", NULL) == TD_ENOMEM)
        return -2;
    return o.pos == o.size || !left ? (int)o.pos : -1;
}

/* Is it a pack, of any name? */
static enum td_piece look_at_frame(const char *path)
{
    const int fd = td_fs_open_regular(path, NULL);
    char head[TD_TAR_BLOCK], name[TD_TAR_NAME];
    enum td_piece what = TD_PIECE_OTHER;
    cJSON *manifest;
    int64_t size;
    int n;

    if (fd < 0)
        return TD_PIECE_OTHER;
    n = first_bytes(fd, head, sizeof head);
    if (n == -1)
        what = TD_PIECE_BROKEN;
    else if (n == TD_TAR_BLOCK && td_tar_head_read(head, name, &size) == 1 &&
             !strcmp(name, MANIFEST)) {
        manifest = td_pack_manifest(path, MANIFEST_MAX);
        if (!manifest || !is_whole_frame(fd))
            what = TD_PIECE_BROKEN;
        else if (td_json_get(manifest, "format"))
            what = TD_PIECE_PACK;
        cJSON_Delete(manifest);
    }
    close(fd);
    return what;
}

enum td_piece td_fixture_piece(const char *path)
{
    const char *name = base_name(path);
    const size_t n = strlen(name);

    if (is_without_pack(path) || is_part_of_file(name) || is_renamed_manifest(path))
        return TD_PIECE_BROKEN;
    if (n > 4 && !strcasecmp(name + n - 4, ".dvc") && is_absent(path, (int)(strlen(path) - 4)))
        return is_of_other_kind(name, n - 4) ? TD_PIECE_POINTER : TD_PIECE_BROKEN;
    if (access(path, R_OK) && errno == EACCES)
        return is_of_other_kind(name, n) ? TD_PIECE_OTHER : TD_PIECE_CLOSED;
    if (is_pointer(path))
        return is_of_other_kind(name, n) ? TD_PIECE_POINTER : TD_PIECE_BROKEN;
    return look_at_frame(path);
}

bool td_fixture_folder_holds_parts(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    char path[TD_PATH_MAX];
    bool found = false;

    while (d && !found && (e = readdir(d)))
        found = is_part_of_file(e->d_name) ||
                (!td_fs_join(path, sizeof path, dir, e->d_name, NULL) && is_renamed_manifest(path));
    if (d)
        closedir(d);
    return found;
}
