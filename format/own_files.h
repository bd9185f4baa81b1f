/* own_files.h - tell the folder of a fixture, however damaged, from another, and its files from those
 * of others that have their names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_OWN_FILES_H
#define TD_FORMAT_OWN_FILES_H

#include "common/error.h"

#define TD_REPAIR_NOTES_NAME "repair.json" /* left by a repair that was interrupted */

enum td_own {
    TD_OWN_EMPTY,     /* or not there: nothing can be lost */
    TD_OWN_OURS,      /* it begins as one of ours, or the head of a frame stands in it */
    TD_OWN_POINTER,   /* of git LFS, in the place of one of ours */
    TD_OWN_THEIRS,
    TD_OWN_UNREADABLE /* or no regular file; err names it */
};

/* What lies at the path, which has the name of the fixture's file `file` (enum td_file; TD_FILE_COUNT:
 * the manifest)? */
enum td_own td_own_file(const char *path, int file, struct td_error *err);

/* Is that the folder of a fixture? So it is when a file of ours is in it, or the lock or the notes of
 * a program that was killed, or when nothing is in it but empty files of a fixture's names and the
 * first bytes of a lock, or nothing at all: what a writer leaves that was killed at once. TD_OK; `code` when it is another folder, in
 * which nothing must be written: the sentence says what to name instead. What cannot be read is
 * TD_EIO or TD_ECORRUPT. */
int td_own_folder(const char *dir, int code, struct td_error *err);

#endif
