/* fs.h - files and folders: bounded reading, private files, atomic replacement.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_FS_H
#define TD_COMMON_FS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

#define TD_PATH_MAX 4096

/* Open a file of a fixture: the last part of the path, in the folder before it. The user named the
 * folder, which may be reached through links. Who made the fixture may be anybody: its file must be
 * a regular one. A link, FIFO, socket, device or folder in its place is named (TD_ECORRUPT), not
 * followed, opened or waited for. Nor is one written to that has another name as well (TD_EIO). No other open of a fixture's file exists (e2e 330).
 *   flags : of open(2); with O_CREAT, O_EXCL as well: a new file, mode 0600
 * Returns a descriptor, or TD_ENOTFOUND, TD_EEXIST, TD_ECORRUPT, TD_EIO (all below 0). */
int td_fs_open_member(const char *path, int flags, struct td_error *err);
/* Open a file that the user named, read-only: a link is followed. TD_EINVAL: it is no regular file;
 * a FIFO or a device is not opened. */
int td_fs_open_regular(const char *path, struct td_error *err);
/* Read all of a file, appended to out. TD_ELIMIT: it has more than max bytes. The first: a file or a
 * pipe that the user named; the second: as td_fs_open_regular(); the third: a file of a fixture. */
int td_fs_read(const char *path, size_t max, struct td_buf *out, struct td_error *err);
int td_fs_read_regular(const char *path, size_t max, struct td_buf *out, struct td_error *err);
int td_fs_read_member(const char *path, size_t max, struct td_buf *out, struct td_error *err);
/* Map a file of td_fs_open_regular(): *n bytes at *data, NULL if it is empty; the caller unmaps. */
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
