/* ref_cache_dir.h - the folder of the cache of references: open it, read and write its files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing in it is opened through a link. */
#ifndef TD_REPLAYER_REF_CACHE_DIR_H
#define TD_REPLAYER_REF_CACHE_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/fs.h"

/* Its path.
 *   dir : what was named; NULL: $XDG_CACHE_HOME/tapedeck/references, or ~/.cache/... */
int td_ref_dir_path(const char *dir, char out[TD_PATH_MAX], struct td_error *err);
/* Make it where it is not there, and open it. -1: it is no folder, or not one that only this user writes to: who
 * else could write there would choose references. */
int td_ref_dir_open(const char *path, struct td_error *err);
/* Read a file of at most `most` bytes, from malloc, and note that it was used. NULL: there is none, it
 * cannot be read, it is another user's, others may write to it or it has another name, or there is no memory. */
char *td_ref_dir_read(int dir, const char *name, size_t most, size_t *n);
/* Write a file: under the name temp, then in one step under its own. False: errno says why, 0: unknown. */
bool td_ref_dir_write(int dir, const char *temp, const char *name, const void *bytes, size_t n);

#endif
