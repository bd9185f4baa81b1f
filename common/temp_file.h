/* temp_file.h - a file under a name that nobody can guess, which then takes the place of another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All temporary files beside another file are made here: ".tapedeck-", 16 random hexadecimal
 * digits, ".tmp", created with O_EXCL. Nobody can put a file or a link there before. */
#ifndef TD_COMMON_TEMP_FILE_H
#define TD_COMMON_TEMP_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/fs.h"

/* Write a new temporary name in the folder of `path` into out. Nothing is created.
 * TD_ELIMIT: path too long. */
int td_temp_name(const char *path, char out[TD_PATH_MAX], struct td_error *err);
/* Create a file under such a name, open for reading and writing, and lock it (temp_sweep.h). Returns the descriptor, or TD_E*:
 * TD_EIO names the path that is to be written, and the cause. */
int td_temp_open(const char *path, mode_t mode, char out[TD_PATH_MAX], struct td_error *err);
/* Give the temporary file, which is synced, the name `path`, and sync the folder. On failure the
 * temporary file is removed. */
int td_temp_rename(const char *temp, const char *path, struct td_error *err);
/* Is this the name, without its folder, of a temporary file as made here? */
bool td_temp_is(const char *name);
/* Write what a folder holds, as names, to the disk. */
int td_sync_folder(const char *dir, struct td_error *err);

#endif
