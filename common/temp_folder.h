/* temp_folder.h - the temporary folder of a run, and those that killed runs left behind.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_TEMP_FOLDER_H
#define TD_COMMON_TEMP_FOLDER_H

#include <stddef.h>

#include "common/error.h"

/* A kind is the front of a name. */
#define TD_TEMP_GATE "tapedeck-gate."
#define TD_TEMP_PACK "tapedeck-pack."

/* Make a new folder in TMPDIR (/tmp), lock it and mark it; remove those of both kinds there that have no
 * owner (temp_sweep.h).
 *   kind : TD_TEMP_*
 *   out  : the folder's path
 *   lock : a descriptor, closed to release the folder; -1 where the file system has no locks
 * TD_ELIMIT: the path is too long; TD_EIO: errno says why. The caller says it, and what helps. */
int td_temp_folder_make(const char *kind, char *out, size_t n, int *lock);

#endif
