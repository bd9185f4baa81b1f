/* fuzz_archive.c - fuzz the unpacking of a pack (format/archive.c, common/pack_manifest.c): no crash, nothing
 * beside the files of a fixture, and no more bytes than were allowed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An input is the ustar archive inside; it is compressed here, so that a change reaches what lies behind the
 * checksum of zstd. Its last byte chooses how the pack is spoiled: 0 not, 1 the input is the pack itself, 2 the
 * pack is cut, 3 more stands behind it. */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/pack_manifest.h"
#include "format/archive.h"
#include "format/manifest.h"
#include "tests/fuzz/fuzz_main.h"

#define MOST ((int64_t)1 << 18)

static char base[40], file[64], folder[64];

static void remove_base(void)
{
    unlink(file);
    rmdir(folder);
    rmdir(base);
}

static void make_base(void)
{
    static int made;

    if (made++)
        return;
    snprintf(base, sizeof base, "%s/td-fuzz-archive-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(base)) /* in memory: each file is synced */
        abort();
    snprintf(file, sizeof file, "%s/x.tdz", base);
    snprintf(folder, sizeof folder, "%s/out", base);
    atexit(remove_base);
}

static bool is_expected(const char *name)
{
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++)
        if (!strcmp(name, td_file_names[i]))
            return true;
    return !strcmp(name, TD_MANIFEST_NAME);
}

/* Look at what was unpacked, and remove it. Returns how many files there were. */
static int look(int64_t most)
{
    DIR *d = opendir(folder);
    char path[PATH_MAX];
    struct dirent *e;
    int64_t bytes = 0;
    struct stat st;
    int n = 0;

    while (d && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (!is_expected(e->d_name) || lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1)
            abort();
        bytes += st.st_size;
        n++;
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
    if (bytes > most)
        abort();
    return n;
}

static void write_pack(const void *data, size_t n, const char *more)
{
    FILE *f = fopen(file, "wb");

    if (!f || fwrite(data, 1, n, f) != n || (more && fwrite(more, 1, strlen(more), f) != strlen(more)) || fclose(f))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const int how = n ? data[n - 1] & 3 : 1;
    const size_t room = ZSTD_compressBound(n);
    struct td_error err = {0};
    size_t packed;
    char *pack;
    int rc;

    make_base();
    pack = malloc(room + 1);
    packed = pack ? ZSTD_compress(pack, room, data, n ? n - 1 : 0, 1) : 0;
    if (!pack || ZSTD_isError(packed))
        abort();
    if (how == 1)
        write_pack(data, n, NULL);
    else
        write_pack(pack, how == 2 ? packed - packed / 3 : packed, how == 3 ? "more" : NULL);
    free(pack);
    cJSON_Delete(td_pack_manifest(file, 4096));
    rc = td_archive_unpack(file, folder, MOST, &err);
    if (rc == TD_OK && (how == 2 || how == 3))
        abort();
    if (look(MOST) != TD_FILE_COUNT + 1 && rc == TD_OK)
        abort();
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/archive", 500)
