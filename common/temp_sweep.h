/* temp_sweep.h - remove temporary files and folders whose owner was killed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The owner of a temporary file or folder holds a lock on it. The system releases the lock however
 * the owner ends, so one whose lock is free has no owner. That holds across containers, where a
 * process id would not.
 *
 * A user may give a folder such a name, so a folder of ours has a mark as well: a file that says the
 * folder's name and inode. A copy of it, or what was given another name, is the user's. */
#ifndef TD_COMMON_TEMP_SWEEP_H
#define TD_COMMON_TEMP_SWEEP_H

#include <stdbool.h>

#define TD_TEMP_MARK ".tapedeck-temporary" /* the mark in a folder */

/* Is a name, without its folder, one that we give? */
typedef bool td_temp_is_fn(const char *name);

/* Take a folder that was just made: lock it, then mark it. Returns a descriptor, closed to release the
 * lock; -1: another holds the lock, it is no folder, or this file system has no locks. */
int td_temp_own_folder(const char *path);
/* Remove the mark: the folder gets another name, under which it stays. */
void td_temp_disown_folder(const char *path);
/* Remove the files and folders of `dir` with such a name that are the user's, a minute old (who
 * begins has no lock yet), and locked by nobody; folders, if they are marked. Links are not followed.
 * A fixture's folder is left alone: `repair` removes what lies there. What cannot be removed stays, in
 * silence. */
void td_temp_sweep(const char *dir, td_temp_is_fn *is_ours);
/* The same for the temporary files of temp_file.h beside `path`. */
void td_temp_sweep_beside(const char *path);

#endif
