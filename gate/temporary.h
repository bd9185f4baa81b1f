/* temporary.h - the temporary folder of a run, and those that killed runs left behind.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A run holds a lock on its folder. The system releases the lock however the run ends, so a folder
 * whose lock is free has no owner. That holds across containers, where a process id would not. */
#ifndef TD_GATE_TEMPORARY_H
#define TD_GATE_TEMPORARY_H

#include <stddef.h>

#include "common/error.h"

/* Make a new folder in TMPDIR (/tmp) and lock it; remove those of ours there that have no owner and
 * are a minute old.
 *   out  : the folder's path
 *   lock : a descriptor, closed to release the folder; -1 where the file system has no locks */
int td_temporary_make(char *out, size_t n, int *lock, struct td_error *err);

#endif
