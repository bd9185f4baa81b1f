/* fs.h - files and folders: bounded reading, private files, atomic replacement.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_FS_H
#define TD_COMMON_FS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

#define TD_PATH_MAX 4096

int td_fs_read(const char *path, size_t max, struct td_buf *out, struct td_error *err);  /* appends; TD_ELIMIT over max */
/* Map a regular file, read-only: *n bytes at *data, NULL if it is empty; the caller unmaps. A FIFO
 * is refused, not waited for. */
int td_fs_map(const char *path, const void **data, size_t *n, struct td_error *err);
/* Write a file under a temporary name, then rename it, with fsync of file and folder. Mode 0600. */
int td_fs_write_atomic(const char *path, const void *data, size_t n, struct td_error *err);
int td_fs_write_all(int fd, const void *data, size_t n, const char *name, struct td_error *err);
int td_fs_mkdirs(const char *path, struct td_error *err);  /* like mkdir -p; new folders 0700 */
/* The same for the folder that `path` is to lie in. */
int td_fs_mkdirs_above(const char *path, struct td_error *err);
bool td_fs_exists(const char *path);
bool td_fs_is_dir(const char *path);
int td_fs_remove_tree(const char *path, struct td_error *err); /* does not follow links */
/* Join dir, "/" and name. TD_ELIMIT: out is too small. */
int td_fs_join(char *out, size_t n, const char *dir, const char *name, struct td_error *err);
/* The folder of the running program ("…/bin"), to find files beside it. */
int td_fs_self_dir(char *out, size_t n, struct td_error *err);

#endif
