/* sink.h - a growing file with a running checksum, and reading at offsets of a file or of memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_SINK_H
#define TD_FORMAT_SINK_H

#include <stdint.h>

#include "common/error.h"
#include "common/fs.h"
#include "common/hash.h"

/* A file that only grows. A failed write is undone by cutting the file to its size before, so that
 * a full disk leaves complete frames. */
struct td_sink {
    int fd;               /* -1: closed */
    char path[TD_PATH_MAX];
    uint64_t size;        /* bytes written successfully */
    void *hash;           /* running XXH3-128 of them */
};

int td_sink_open(struct td_sink *s, const char *dir, const char *name, struct td_error *err); /* new file, 0600 */
/* Cut an existing file to that size and go on at its end; td_sink_digest() then covers only what is
 * added. */
int td_sink_reopen(struct td_sink *s, const char *path, uint64_t size, struct td_error *err);
int td_sink_write(struct td_sink *s, const void *head, size_t n_head, const void *body, size_t n_body, struct td_error *err);
struct td_hash td_sink_digest(const struct td_sink *s);
int td_sink_sync(struct td_sink *s, struct td_error *err);
void td_sink_close(struct td_sink *s);

/* Bytes at offsets; a file (descriptor owned) or borrowed memory. */
struct td_source {
    int fd;               /* -1: memory */
    const uint8_t *mem;
    uint64_t size;
    char name[TD_PATH_MAX];
};

/* A file of a fixture (td_fs_open_member). TD_ENOTFOUND, TD_ECORRUPT, TD_EIO. */
int td_source_open(struct td_source *s, const char *path, struct td_error *err);
void td_source_memory(struct td_source *s, const void *data, size_t n, const char *name);
void td_source_close(struct td_source *s);
/* Read exactly n bytes at an offset. TD_ETRUNCATED, TD_EIO. */
int td_source_read(const struct td_source *s, uint64_t at, void *out, size_t n, struct td_error *err);
/* The first offset >= at of the n <= 16 bytes of `needle`; s->size: none. */
uint64_t td_source_find(const struct td_source *s, uint64_t at, const void *needle, size_t n);
/* XXH3-128 of all bytes. */
int td_source_digest(const struct td_source *s, struct td_hash *out, struct td_error *err);

#endif
