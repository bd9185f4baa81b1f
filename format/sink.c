/* sink.c - growing files with a running checksum; bytes at offsets.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#define WINDOW (1u << 18)

int td_sink_open(struct td_sink *s, const char *dir, const char *name, struct td_error *err)
{
    int rc;

    memset(s, 0, sizeof *s);
    s->fd = -1;
    rc = td_fs_join(s->path, sizeof s->path, dir, name, err);
    if (rc)
        return rc;
    s->hash = XXH3_createState();
    if (!s->hash)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", s->path);
    XXH3_128bits_reset(s->hash);
    s->fd = td_fs_open_member(s->path, O_RDWR | O_CREAT | O_EXCL, err);
    if (s->fd < 0) {
        rc = s->fd;
        td_sink_close(s);
    }
    return rc;
}

int td_sink_reopen(struct td_sink *s, const char *path, uint64_t size, struct td_error *err)
{
    int rc;

    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s", path);
    s->size = size;
    s->fd = td_fs_open_member(path, O_RDWR, err);
    s->hash = XXH3_createState();
    if (s->hash)
        XXH3_128bits_reset(s->hash);
    if (s->fd >= 0 && s->hash && !ftruncate(s->fd, (off_t)size) && lseek(s->fd, (off_t)size, SEEK_SET) >= 0)
        return TD_OK;
    rc = s->fd < 0 ? s->fd : td_fail(err, TD_EIO, "%s: cannot go on at its end: %s", path, strerror(errno));
    td_sink_close(s);
    return rc;
}

int td_sink_write(struct td_sink *s, const void *head, size_t n_head, const void *body, size_t n_body, struct td_error *err)
{
    int rc = td_fs_write_all(s->fd, head, n_head, s->path, err);

    if (!rc && n_body)
        rc = td_fs_write_all(s->fd, body, n_body, s->path, err);
    if (rc) {
        if (ftruncate(s->fd, (off_t)s->size) || lseek(s->fd, (off_t)s->size, SEEK_SET) < 0)
            td_fail(err, TD_EIO, "%s: cannot cut a torn frame: %s", s->path, strerror(errno));
        return rc;
    }
    XXH3_128bits_update(s->hash, head, n_head);
    if (n_body)
        XXH3_128bits_update(s->hash, body, n_body);
    s->size += n_head + n_body;
    return TD_OK;
}

struct td_hash td_sink_digest(const struct td_sink *s)
{
    XXH128_hash_t h = XXH3_128bits_digest(s->hash);

    return (struct td_hash){h.high64, h.low64};
}

int td_sink_sync(struct td_sink *s, struct td_error *err)
{
    return fsync(s->fd) ? td_fail(err, TD_EIO, "%s: cannot sync: %s", s->path, strerror(errno)) : TD_OK;
}

void td_sink_close(struct td_sink *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    XXH3_freeState(s->hash);
    s->hash = NULL;
}

int td_source_open(struct td_source *s, const char *path, struct td_error *err)
{
    struct stat st;
    int fd;

    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", path);
    fd = td_fs_open_member(path, O_RDONLY, err);
    s->fd = -1;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st)) {
        close(fd);
        return td_fail(err, TD_EIO, "%s: cannot stat: %s", path, strerror(errno));
    }
    s->fd = fd;
    s->size = (uint64_t)st.st_size;
    return TD_OK;
}

void td_source_memory(struct td_source *s, const void *data, size_t n, const char *name)
{
    memset(s, 0, sizeof *s);
    s->fd = -1;
    s->mem = data;
    s->size = n;
    snprintf(s->name, sizeof s->name, "%s", name);
}

void td_source_close(struct td_source *s)
{
    if (s->fd >= 0 && !s->mem)
        close(s->fd);
    s->fd = -1;
    s->size = 0;
}

int td_source_read(const struct td_source *s, uint64_t at, void *out, size_t n, struct td_error *err)
{
    char *p = out;

    if (at > s->size || n > s->size - at)
        return td_fail(err, TD_ETRUNCATED, "%s: ends at %llu, %zu bytes are due at %llu", s->name, (unsigned long long)s->size, n,
                       (unsigned long long)at);
    if (s->mem) {
        memcpy(out, s->mem + at, n);
        return TD_OK;
    }
    while (n) {
        ssize_t k = pread(s->fd, p, n, (off_t)at);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return td_fail(err, TD_EIO, "%s: cannot read: %s", s->name, strerror(errno));
        if (!k)
            return td_fail(err, TD_ETRUNCATED, "%s: became shorter while it was read", s->name);
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return TD_OK;
}

uint64_t td_source_find(const struct td_source *s, uint64_t at, const void *needle, size_t n)
{
    uint8_t *win;
    uint64_t found = s->size;

    if (s->mem) {
        const uint8_t *p = at < s->size ? memmem(s->mem + at, s->size - at, needle, n) : NULL;

        return p ? (uint64_t)(p - s->mem) : s->size;
    }
    win = malloc(WINDOW);
    while (win && at + n <= s->size) {
        size_t have = s->size - at < WINDOW ? (size_t)(s->size - at) : WINDOW;
        uint8_t *p;

        if (td_source_read(s, at, win, have, NULL))
            break;
        p = memmem(win, have, needle, n);
        if (p) {
            found = at + (uint64_t)(p - win);
            break;
        }
        if (have < WINDOW)
            break;
        at += have - (n - 1);
    }
    free(win);
    return found;
}

int td_source_digest(const struct td_source *s, struct td_hash *out, struct td_error *err)
{
    XXH3_state_t *st = XXH3_createState();
    uint8_t *win = malloc(WINDOW);
    XXH128_hash_t h;
    uint64_t at = 0;
    int rc = st && win ? TD_OK : td_fail(err, TD_ENOMEM, "%s: out of memory", s->name);

    if (st)
        XXH3_128bits_reset(st);
    while (!rc && at < s->size) {
        size_t n = s->size - at < WINDOW ? (size_t)(s->size - at) : WINDOW;

        rc = td_source_read(s, at, win, n, err);
        if (!rc)
            XXH3_128bits_update(st, win, n);
        at += n;
    }
    if (!rc) {
        h = XXH3_128bits_digest(st);
        *out = (struct td_hash){h.high64, h.low64};
    }
    XXH3_freeState(st);
    free(win);
    return rc;
}
