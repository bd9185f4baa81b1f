/* fixture_folder.h - the folder behind what the user named as a fixture: that folder itself, or
 * the one that a pack is unpacked into.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_FIXTURE_FOLDER_H
#define TD_FORMAT_FIXTURE_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/fixture_folders.h"
#include "common/fs.h"

/* Find the folder of a fixture. A pack is unpacked into a new folder below TMPDIR, once for the
 * life of the process; it is removed when the process exits, and by SIGINT, SIGTERM and SIGHUP
 * where the program does not handle them (where it does, it exits in order). SIGKILL leaves it.
 *   path : as the user named it
 * TD_ENOTFOUND: nothing is there; TD_EIO: it cannot be reached (no permission), or there is no room
 * to unpack it; TD_EBUSY: another process writes to it (fixture_lock.h); TD_ECORRUPT, TD_ETRUNCATED, TD_ELIMIT: no pack, or a bad one. */
int td_fixture_folder(const char *path, char out[TD_PATH_MAX], struct td_error *err);
/* Remove what was unpacked, now: for a process that ends by _exit(). */
void td_fixture_folder_remove_all(void);
/* Does this look like a fixture: a folder with a manifest, or a file with the beginning of a pack
 * (or of the pointer that git LFS leaves in its place)?
 * False as well when it cannot be read. */
bool td_fixture_is(const char *path);

#endif
